// SPDX-License-Identifier: Apache-2.0
// MNIST files and folders of images.
#include "tools/convert/convert_images.h"
#include "tests/tools/convert/convert_files.h"

namespace millrace::convert {
namespace {

using test::ProgramRun;
using test::RunShell;

namespace fs = std::filesystem;
using test::ReadFile;
using test::TemporaryFolder;
using test::WriteFile;

constexpr char kShared[] = MILLRACE_SHARED_DATA;

std::string BigEndian(std::initializer_list<uint32_t> numbers) {
  std::string bytes;
  for (const uint32_t n : numbers) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(n >> shift & 0xff);
  }
  return bytes;
}

TEST(Convert, MnistPairsBecomeImageRecordsInEitherOrder) {
  const TemporaryFolder folder;
  WriteFile(folder / "images", BigEndian({0x803, 2, 2, 3}) + "abcdefghijkl");
  WriteFile(folder / "labels", BigEndian({0x801, 2}) + std::string("\x07\x00", 2));
  for (const std::string files : {"images labels", "labels images"}) {
    const ProgramRun run = RunShell("cd " + folder.path() +
                                    " && " MILLRACE_BIN_DIR
                                    "/millrace-records convert --overwrite --shards=2 --out=out " +
                                    files);
    ASSERT_EQ(run.status, 0) << run.err;
    const Record size = {{"height", "2 "}, {"width", "3 "}, {"depth", "1 "}};
    Record first = size, second = size;
    first.insert({{"image_raw", "abcdef"}, {"label", "7 "}});
    second.insert({{"image_raw", "ghijkl"}, {"label", "0 "}});
    EXPECT_EQ(ReadShards(folder / "out/train", 2), (std::vector<Record>{first, second}));
  }
}

TEST(Convert, MnistSizesAndMagicAreChecked) {
  const TemporaryFolder folder;
  const std::string images = BigEndian({0x803, 2, 2, 3}) + "abcdefghijkl";
  const std::string labels = BigEndian({0x801, 2}) + "12";
  const auto error = [&](const std::string& image_bytes, const std::string& label_bytes) {
    WriteFile(folder / "images", image_bytes);
    WriteFile(folder / "labels", label_bytes);
    const ProgramRun run = Convert("--format=mnist --out=" + (folder / "out") + " " +
                                   (folder / "images") + " " + (folder / "labels"));
    EXPECT_NE(run.status, 0);
    EXPECT_TRUE(FilesIn(folder / "out").empty());
    return run.err;
  };
  EXPECT_TRUE(Contains(error(images.substr(0, 27), labels),
                       "expected 28 bytes as its header says, found 27"));
  EXPECT_TRUE(Contains(error(images + "x", labels), "found 29"));
  EXPECT_TRUE(Contains(error(images, BigEndian({0x801, 3}) + "123"), "expected 2 labels"));
  EXPECT_TRUE(Contains(error(images, images), "two of images"));
  EXPECT_TRUE(Contains(error("PK", labels), "found the end of the file"));
  EXPECT_TRUE(Contains(error(BigEndian({0x802, 1}), labels), "found 0x00000802"));
  EXPECT_TRUE(Contains(error(BigEndian({0x803, 2}), labels), "bytes of dimensions"));
  EXPECT_TRUE(Contains(error(BigEndian({0x803, 1, 0xffffffff, 0xffffffff}), labels),
                       "expected images of 1 to"));
}

// Such records would be too long for every reader.
TEST(Convert, MnistImagesBeyondTheLimitOfRecordsAreRefused) {
  const TemporaryFolder folder;
  WriteFile(folder / "images", BigEndian({0x803, 1, 6000, 6000}) + "a");
  WriteFile(folder / "labels", BigEndian({0x801, 1}) + "1");
  const ProgramRun run = Convert("--format=mnist --on_corrupt=skip --out=" + (folder / "out") +
                                 " " + (folder / "images") + " " + (folder / "labels"));
  EXPECT_EQ(run.status, 1);
  EXPECT_TRUE(Contains(run.err, (folder / "images") +
                                    ": expected images of at most 32505856 bytes, found 6000 x "
                                    "6000"))
      << run.err;
}

TEST(Convert, TruncatedMnistFileGivesItsImagesWhenSkipping) {
  const TemporaryFolder folder;
  WriteFile(folder / "images", BigEndian({0x803, 3, 1, 1}) + "a");
  WriteFile(folder / "labels", BigEndian({0x801, 3}) + "123");
  const ProgramRun run = Convert("--on_corrupt=skip --shards=1 --out=" + folder.path() + " " +
                                 (folder / "images") + " " + (folder / "labels"));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(Contains(run.out, "3 in, 1 out, 2 skipped")) << run.out;
}

std::string PngOf(uint32_t width, uint32_t height) {
  return "\x89PNG\r\n\x1a\n" + BigEndian({13}) + "IHDR" + BigEndian({width, height}) + "rest";
}

std::string JpegOf(uint16_t width, uint16_t height) {
  std::string bytes("\xff\xd8\xff\xe0\x00\x04xx\xff\xff\xc2\x00\x0b\x08", 14);
  for (const int n : {height, width}) bytes += {static_cast<char>(n >> 8), static_cast<char>(n)};
  return bytes + "rest";
}

TEST(ImageHeader, SizesAreReadFromPngAndJpeg) {
  const Result<ImageHeader> png = ReadImageHeader(PngOf(300, 7));
  ASSERT_TRUE(png.ok()) << png.status().message();
  EXPECT_STREQ(png->format, "png");
  EXPECT_EQ(png->width, 300u);
  EXPECT_EQ(png->height, 7u);
  const Result<ImageHeader> jpeg = ReadImageHeader(JpegOf(640, 480));
  ASSERT_TRUE(jpeg.ok()) << jpeg.status().message();
  EXPECT_STREQ(jpeg->format, "jpeg");
  EXPECT_EQ(jpeg->width, 640u);
  EXPECT_EQ(jpeg->height, 480u);
}

TEST(ImageHeader, EveryTruncationIsAnError) {
  for (const std::string& image : {PngOf(1, 2).substr(0, 24), JpegOf(1, 2).substr(0, 18)}) {
    EXPECT_TRUE(ReadImageHeader(image).ok());
    for (size_t size = 0; size < image.size(); ++size) {
      const std::string cut = image.substr(0, size);
      EXPECT_FALSE(ReadImageHeader(cut).ok()) << size;
    }
  }
}

TEST(Convert, ImageFoldersBecomeLabelledRecords) {
  const TemporaryFolder folder;
  for (const char* name : {"in", "in/dog", "in/ant", "in/.hidden"})
    fs::create_directory(folder / name);
  WriteFile(folder / "in/dog/2.png", JpegOf(5, 6));  // the content decides, not the name
  WriteFile(folder / "in/dog/1.jpg", JpegOf(3, 4));
  WriteFile(folder / "in/ant/x.png", PngOf(1, 2));
  WriteFile(folder / "in/ant/.keep", "");
  const ProgramRun run = Convert("--shards=1 --out=" + (folder / "out") + " " + (folder / "in"));
  ASSERT_EQ(run.status, 0) << run.err;
  const std::vector<Record> records = ReadShards(folder / "out/train", 1);
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0], (Record{{"image/class/label", "0 "},
                                {"image/class/text", "ant"},
                                {"image/encoded", PngOf(1, 2)},
                                {"image/filename", "x.png"},
                                {"image/format", "png"},
                                {"image/height", "2 "},
                                {"image/width", "1 "}}));
  EXPECT_EQ(records[1].at("image/filename"), "1.jpg");
  EXPECT_EQ(records[2].at("image/format"), "jpeg");
  EXPECT_EQ(records[2].at("image/class/label"), "1 ");
  EXPECT_EQ(ReadFile(folder / "out/labels.txt"), "ant\ndog\n");
}

TEST(Convert, OtherFilesFailOrAreSkipped) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "in/cat/deeper");
  WriteFile(folder / "in/cat/a.png", PngOf(1, 2));
  WriteFile(folder / "in/cat/notes.txt", "hello");
  WriteFile(folder / "in/cat/empty.png", "");
  WriteFile(folder / "in/readme", "hello");
  const std::string rest = "--shards=1 --out=" + (folder / "out") + " " + (folder / "in");
  const ProgramRun failed = Convert(rest);
  EXPECT_EQ(failed.status, 1);
  EXPECT_TRUE(FilesIn(folder / "out").empty());
  const ProgramRun run = Convert("--on_corrupt=skip " + rest);
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(Contains(run.out, "5 in, 1 out, 4 skipped")) << run.out;
}

TEST(Convert, LabelsOfAnotherDataSetAreNotOverwritten) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "in/cat");
  WriteFile(folder / "in/cat/a.png", PngOf(1, 2));
  WriteFile(folder / "labels.txt", "ant\ncat\n");
  const ProgramRun run = Convert("--out=" + folder.path() + " " + (folder / "in"));
  EXPECT_EQ(run.status, 2);
  EXPECT_TRUE(Contains(run.err, "has different classes")) << run.err;
  EXPECT_EQ(ReadFile(folder / "labels.txt"), "ant\ncat\n");
}

TEST(ConvertShared, ImagesOfAllKindsAreSized) {
  SKIP_WITHOUT_SHARED_DATA();
  const TemporaryFolder folder;
  fs::create_directory(folder / "in");
  fs::create_directory_symlink(fs::absolute(std::string(kShared) + "/images"), folder / "in/all");
  const ProgramRun run = Convert("--shards=1 --out=" + (folder / "out") + " " + (folder / "in"));
  ASSERT_EQ(run.status, 0) << run.err;
  std::map<std::string, std::string> sizes;
  for (const Record& record : ReadShards(folder / "out/train", 1)) {
    sizes[record.at("image/filename")] = record.at("image/width") + record.at("image/height");
  }
  EXPECT_EQ(sizes.size(), 14u);
  EXPECT_EQ(sizes["lena_rgba.png"], "51 26 ");
  EXPECT_EQ(sizes["grace_hopper.jpg"], "517 606 ");
  EXPECT_EQ(sizes["jpeg_merge_test1_cmyk.jpg"], "128 256 ");
  EXPECT_EQ(sizes["corrupt34_2.jpg"], "2544 3300 ");
}

}  // namespace
}  // namespace millrace::convert
