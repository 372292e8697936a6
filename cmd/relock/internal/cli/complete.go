package cli

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/queue"
)

// The limits of a completion: a person waits for it.
const (
	completionTime = 300 * time.Millisecond
	completionKeys = 100
)

// completeKey names the locks that begin with a text. Errors are silent, since
// they would be written into the line that is completed.
func (c *connection) completeKey(
	cmd *cobra.Command, args []string, begin string,
) (keys []string, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c.briefly(cmd, func(ctx context.Context, client *relock.Client) {
		for info, err := range client.List(ctx, literal.Replace(begin)+"*") {
			if err != nil || len(keys) == completionKeys {
				break
			}
			if isWord(info.Key) {
				keys = append(keys, info.Key)
			}
		}
	})
	return keys, cobra.ShellCompDirectiveNoFileComp
}

// completeQueue names the queues that begin with a text.
func (c *connection) completeQueue(
	cmd *cobra.Command, args []string, begin string,
) (names []string, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c.briefly(cmd, func(ctx context.Context, client *relock.Client) {
		for name, err := range queue.List(ctx, client) {
			if err != nil || len(names) == completionKeys {
				break
			}
			if strings.HasPrefix(name, begin) && isWord(name) {
				names = append(names, name)
			}
		}
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeLetter names the dead letters of the queue that is the first
// argument, without those that are arguments already.
func (c *connection) completeLetter(
	cmd *cobra.Command, args []string, begin string,
) (ids []string, _ cobra.ShellCompDirective) {
	if len(args) == 0 {
		return c.completeQueue(cmd, args, begin)
	}
	c.briefly(cmd, func(ctx context.Context, client *relock.Client) {
		q, err := readerOf(args[0], client)
		if err != nil {
			return
		}
		for letter, err := range q.DeadLetters(ctx) {
			if err != nil || len(ids) == completionKeys {
				break
			}
			id := letter.ID
			if strings.HasPrefix(id, begin) && isWord(id) && !slices.Contains(args[1:], id) {
				ids = append(ids, id)
			}
		}
	})
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// completePaused names the paused keys of the queue that is the first argument.
func (c *connection) completePaused(
	cmd *cobra.Command, args []string, begin string,
) (keys []string, _ cobra.ShellCompDirective) {
	if len(args) != 1 {
		return c.completeQueue(cmd, args, begin)
	}
	c.briefly(cmd, func(ctx context.Context, client *relock.Client) {
		q, err := readerOf(args[0], client)
		if err != nil {
			return
		}
		for paused, err := range q.PausedKeys(ctx) {
			if err != nil || len(keys) == completionKeys {
				break
			}
			if strings.HasPrefix(paused.Key, begin) && isWord(paused.Key) {
				keys = append(keys, paused.Key)
			}
		}
	})
	return keys, cobra.ShellCompDirectiveNoFileComp
}

// briefly calls f with a quiet client for a moment, if there is one. Nobody can
// be told why there is none.
func (c *connection) briefly(cmd *cobra.Command, f func(context.Context, *relock.Client)) {
	own := *c
	own.timeout, own.verbose = seconds(completionTime), false
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	_ = own.with(io.Discard, func(client *relock.Client) error {
		f(ctx, client)
		return nil
	})
}

// isWord reports whether all shells read a name as it is. Only such a name is
// offered: bash inserts what several names begin with, without quotes, and the
// next completion evaluates it. Others may have chosen these names.
func isWord(name string) bool {
	return !strings.HasPrefix(name, "-") && !strings.HasPrefix(name, "=") &&
		!strings.ContainsFunc(name, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./:@%+=,[]", r)
		})
}

// literal escapes a text for a pattern of SCAN.
var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
