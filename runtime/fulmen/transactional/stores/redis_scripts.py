"""The scripts that Redis runs for a map: each script is run whole, and nothing comes between.

KEYS are the five hashes of a map, in the order in which redis.py lists them. Scripts use few
commands, so that a right that is missing is missed before anything is written.
"""

AT_ONCE = 1000
"""Values that a script handles at once: Lua's stack is small."""

OWN = """
-- Whose the map is. A new one becomes ours, unless a key of its names is there.
-- ARGV: what is written down about a new one
local found = redis.call('HGETALL', KEYS[5])
if #found > 0 then return found end
for i = 1, 4 do
  if redis.call('EXISTS', KEYS[i]) == 1 then return {'taken', KEYS[i]} end
end
redis.call('HSET', KEYS[5], unpack(ARGV))
return redis.call('HGETALL', KEYS[5])
"""
WRITE = f"""
-- A commit phase of one map, or of several. Nothing is written unless all is as it was read.
-- KEYS: those of each map. ARGV: for each map the field of the task's mark, the mark as it was
-- read, the new one, and which keys change (with the opaque rule). Then seven lists, each after its
-- length: the keys that were read, their stamps, keys and previous values to set, keys whose
-- previous values go, keys and values to set, keys and stamps to set, and keys that go.
local at = 1
local function take()
  at = at + 1
  return ARGV[at - 1]
end
local function slice()
  local n = tonumber(take())
  at = at + n
  return {{at - n, at - 1}}
end
local function each(part, act)
  for i = part[1], part[2], {AT_ONCE} do act(i, math.min(i + {AT_ONCE} - 1, part[2])) end
end
local function hset(key, part)
  each(part, function(i, j) redis.call('HSET', key, unpack(ARGV, i, j)) end)
end
local function hdel(key, part)
  each(part, function(i, j) redis.call('HDEL', key, unpack(ARGV, i, j)) end)
end
local maps = {{}}
for first = 1, #KEYS, 5 do
  local mark, was = take(), take()
  local map = {{keys = {{unpack(KEYS, first, first + 4)}}, mark = mark, now = take(), of = take()}}
  local read, stamps = slice(), slice()
  map.kept, map.unkept, map.values = slice(), slice(), slice()
  map.stamps, map.gone = slice(), slice()
  maps[#maps + 1] = map
  if redis.call('EXISTS', map.keys[5]) == 0 then return 'gone' end
  if (redis.call('HGET', map.keys[4], mark) or '') ~= was then return 'changed' end
  local same = true
  each(read, function(i, j)
    local found = redis.call('HMGET', map.keys[2], unpack(ARGV, i, j))
    for k = 1, #found do
      if (found[k] or '') ~= ARGV[i + k - 1 + stamps[1] - read[1]] then same = false end
    end
  end)
  if not same then return 'changed' end
end
for _, map in ipairs(maps) do
  if map.of ~= '' then redis.call('HSET', map.keys[4], 'keys:' .. map.mark:sub(6), map.of) end
  hset(map.keys[3], map.kept)
  hdel(map.keys[3], map.unkept)
  hset(map.keys[1], map.values)
  hset(map.keys[2], map.stamps)
  hdel(map.keys[1], map.gone)
  hdel(map.keys[2], map.gone)
  redis.call('HSET', map.keys[4], map.mark, map.now)
end
return 'written'
"""
