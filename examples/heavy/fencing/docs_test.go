package main

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/testkit"
)

// The SQL of docs/fencing.md refuses a write with an older token than the last
// one, or with none.
func TestDocumentedSQL(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", ":memory:")
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(t.Context(), "CREATE TABLE account (id INT, balance INT); INSERT INTO account VALUES (7, 100)")
	require.NoError(t, err)
	blocks := testkit.CodeBlocksIn(t, "../../../docs/fencing.md", "sql")
	require.Len(t, blocks, 3)
	arguments := []func(token int) []any{
		func(token int) []any { return []any{70, token, 7} },
		func(token int) []any { return []any{"2026-11-26", "all well", token} },
		func(token int) []any { return []any{"account:7", token} },
	}
	for i, block := range blocks {
		define, write, found := strings.Cut(block, ";\n\n")
		require.True(t, found, block)
		_, err := db.ExecContext(t.Context(), define)
		require.NoError(t, err, define)
		for _, try := range []struct{ token, rows int }{{0, 0}, {20, 1}, {10, 0}, {20, 1}, {0, 0}, {21, 1}} {
			require.Equal(t, try.rows, changed(t, db, write, arguments[i](try.token)), "token %d: %s", try.token, write)
		}
	}
}

// changed returns how many rows a write has changed. A refusal is none.
func changed(t *testing.T, db *sql.DB, write string, arguments []any) int {
	t.Helper()
	result, err := db.ExecContext(t.Context(), write, arguments...)
	if err != nil {
		require.ErrorContains(t, err, "CHECK constraint failed")
		return 0
	}
	rows, err := result.RowsAffected()
	require.NoError(t, err)
	return int(rows)
}
