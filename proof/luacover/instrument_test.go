package main

import (
	"io/fs"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/proof/internal/testbinary"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const sample = `-- A sample: and, or, if, for.
local function small(n)
  if n < 10 then
    return true
  end
  return false
end

if #ARGV[1] == 0 or not (ARGV[1] == 'a and b' or ARGV[1] == 'c') then -- a or b
  return 'neither'
elseif small(tonumber(ARGV[2])) and ARGV[3] then
  return 'small'
else
  for i = 10, tonumber(ARGV[2]) do
    for _, word in ipairs({'big', 'a and b'}) do -- or so
      return word
    end
  end
  return 'none'
end`

// The sample without its prelude, as it is when it is instrumented.
const instrumented = `-- A sample: and, or, if, for.
local function small(n) seen('sample:2', true)
  if seen('sample:3', n < 10) then
    return true
  end
  return false
end

if seen('sample:9', seen('sample:9.1', #ARGV[1] == 0) or ` +
	`not (seen('sample:9.2', ARGV[1] == 'a and b') or seen('sample:9.3', ARGV[1] == 'c'))) then
  return 'neither'
elseif seen('sample:11', seen('sample:11.1', small(tonumber(ARGV[2]))) and seen('sample:11.2', ARGV[3])) then
  return 'small'
else
  for i = 10, tonumber(ARGV[2]) do seen('sample:14', true)
    for _, word in ipairs({'big', 'a and b'}) do seen('sample:15', true)
      return word
    end
  end
  return 'none'
end`

func TestInstrument(t *testing.T) {
	text, all, err := instrument("sample", sample)
	require.NoError(t, err)
	require.Equal(t, instrumented, strings.TrimPrefix(text, prelude))
	require.Equal(t, []condition{
		{id: "sample:2", text: "local function small(n)", body: true},
		{id: "sample:3", text: "n < 10"},
		{id: "sample:9", text: "#ARGV[1] == 0 or not (ARGV[1] == 'a and b' or ARGV[1] == 'c')"},
		{id: "sample:9.1", text: "#ARGV[1] == 0"},
		{id: "sample:9.2", text: "ARGV[1] == 'a and b'"},
		{id: "sample:9.3", text: "ARGV[1] == 'c'"},
		{id: "sample:11", text: "small(tonumber(ARGV[2])) and ARGV[3]"},
		{id: "sample:11.1", text: "small(tonumber(ARGV[2]))"},
		{id: "sample:11.2", text: "ARGV[3]"},
		{id: "sample:14", text: "for i = 10, tonumber(ARGV[2]) do", body: true},
		{id: "sample:15", text: "for _, word in ipairs({'big', 'a and b'}) do -- or so", body: true},
	}, all)
}

func TestHiddenBranchesAreRefused(t *testing.T) {
	for _, line := range []string{
		"return a and 1 or 2",
		"local n = a or 1",
		"if a then return 1 end",
		"if a",
		"  and b then",
		"if f(a and b) then",
		"if (a and b) == c then",
		"while a do",
		"for i = 1, 2 do return i end",
		"for i = 1, a or 2 do",
		"for i = 1, 2",
		"local f = function() return 1 end",
		"call(function()",
	} {
		_, _, err := instrument("sample", line)
		require.Error(t, err, line)
	}
	for _, line := range []string{"end", "else", "-- a and b", "return 'a and b'", "local n = 1 -- or 2", "format = 1"} {
		_, all, err := instrument("sample", line)
		require.NoError(t, err, line)
		require.Empty(t, all)
	}
}

// An instrumented script replies as before, and the server's log has the values
// of its conditions.
func TestInstrumentedScriptDoesTheSame(t *testing.T) {
	logs := t.TempDir()
	t.Setenv("RELOCK_TEST_LOGS", logs)
	s := redistest.Start(t)
	text, all, err := instrument("sample", sample)
	require.NoError(t, err)
	for answer, args := range map[string][]any{"neither": {""}, "small": {"c", 9, 1}, "big": {"a and b", 10}} {
		for _, source := range []string{sample, text} {
			got, err := redis.String(s.Do(t, "EVAL", append([]any{source, 0}, args...)...), nil)
			require.NoError(t, err)
			require.Equal(t, answer, got)
		}
	}
	values, err := readLogs(logs)
	require.NoError(t, err)
	require.True(t, values[value{"sample:2", true}])
	require.True(t, values[value{"sample:9.2", false}])
	require.False(t, values[value{"sample:11.2", false}], "no call with a small number was without a third argument")
	require.ErrorContains(t, report(all, values), "sample:11.2: never false: ARGV[3]")
	values[value{"sample:11.2", false}], values[value{"sample:9.3", false}] = true, true
	require.NoError(t, report(all, values))
}

// The scripts of the locks can be instrumented, and the server takes them.
func TestScriptsCanBeInstrumented(t *testing.T) {
	root, err := testbinary.Root()
	require.NoError(t, err)
	scripts := map[string]string{}
	for _, folder := range suites {
		own, all, err := instrumentAll(root, folder)
		require.NoError(t, err)
		require.NotEmpty(t, all)
		maps.Copy(scripts, own)
	}
	files, err := luaFiles(root)
	require.NoError(t, err)
	require.Len(t, scripts, len(files), "each script of the project is in a folder of the suites")
	joined := ""
	for _, name := range []string{"number", "queue", "take", "enqueue"} {
		joined += scripts[filepath.Join("lua", name+".lua")] + "\n"
	}
	scripts["the longest one"] = joined
	s := redistest.Start(t)
	for name, text := range scripts {
		_, err := s.Try(t, "SCRIPT", "LOAD", text)
		require.NoError(t, err, name)
	}
}

// luaFiles are all scripts of the project, but earlier ones that tests keep.
func luaFiles(root string) (files []string, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.Name() == "testdata":
			return fs.SkipDir
		case filepath.Ext(path) == ".lua":
			files = append(files, path)
		}
		return nil
	})
	return files, err
}
