-- SPDX-License-Identifier: Apache-2.0
-- Requests of one context with 100 candidates, for wrk and a millrace-serve with the model that
-- tests/bench/make_serve_model.sh makes:
--
--   wrk -t1 -c16 -d10s --latency -s tests/bench/serve_candidates.lua http://127.0.0.1:8500 FORM
--
-- FORM: rows (a candidate is an object), columns (a field is an array; the default), or keys.
local requests, count = {}, 256
local context_fields, candidate_fields, candidates = 10, 4, 100

local function object(names, value)
  local members = {}
  for i, name in ipairs(names) do members[i] = '"' .. name .. '":' .. value() end
  return '{' .. table.concat(members, ',') .. '}'
end
local function list(size, value)
  local items = {}
  for i = 1, size do items[i] = value() end
  return '[' .. table.concat(items, ',') .. ']'
end
local function names(from, to)
  local made = {}
  for i = from, to - 1 do made[#made + 1] = 'f' .. i end
  return made
end

local function text() return '"v' .. math.random(0, 99999) .. '"' end
local function number() return tostring(math.random(0, 99999)) end
local function key() return tostring(math.random(0, 4194303)) end
local context, own = names(0, context_fields), names(context_fields, context_fields + candidate_fields)
local bodies = {
  rows = function()
    return '{"context":' .. object(context, text) .. ',"candidates":' ..
        list(candidates, function() return object(own, number) end) .. '}'
  end,
  columns = function()
    return '{"context":' .. object(context, text) .. ',"candidates":' ..
        object(own, function() return list(candidates, number) end) .. '}'
  end,
  keys = function()
    return '{"context_keys":' .. list(context_fields, key) .. ',"candidate_keys":' ..
        list(candidates, function() return list(candidate_fields, key) end) .. '}'
  end,
}

local turn, answered, failed = 0, 0, 0
function init(args)
  local body = bodies[args[1] or 'columns']
  for i = 1, count do requests[i] = wrk.format('POST', '/v1/score', nil, body()) end
end
function request()
  turn = turn % count + 1
  return requests[turn]
end
