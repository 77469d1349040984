// SPDX-License-Identifier: Apache-2.0
// Scores rows, JSON objects, one a line on standard input, with millrace-serve:
//
//	go run main.go http://127.0.0.1:8500 < rows.jsonl
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
)

type request struct {
	Rows []json.RawMessage `json:"rows"`
}

type reply struct {
	// A number as it was sent, with all its digits.
	Scores []json.Number `json:"scores"`
	Error  string        `json:"error"`
}

func score(url string, rows []json.RawMessage) ([]json.Number, error) {
	body, err := json.Marshal(request{rows})
	if err != nil {
		return nil, err
	}
	response, err := http.Post(url+"/v1/score", "application/json", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var out reply
	if err := json.NewDecoder(response.Body).Decode(&out); err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", response.Status, out.Error)
	}
	return out.Scores, nil
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: main URL < rows.jsonl")
		os.Exit(2)
	}
	var rows []json.RawMessage
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) > 0 {
			rows = append(rows, append(json.RawMessage(nil), lines.Bytes()...))
		}
	}
	scores, err := score(os.Args[1], rows)
	if err == nil {
		err = lines.Err()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, value := range scores {
		fmt.Println(value)
	}
}
