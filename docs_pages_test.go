package relock_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading      = regexp.MustCompile(`(?m)^#+ (.+)$`)
	codeBlock    = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	notInAnchors = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns those that GitHub gives to the headings of a page.
func anchors(t *testing.T, file string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, found := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(readFile(t, file), ""), -1) {
		text := notInAnchors.ReplaceAllString(strings.ToLower(found[1]), "")
		all[strings.ReplaceAll(text, " ", "-")] = true
	}
	return all
}

// requirePlace checks that a path from the root is there, and its anchor.
func requirePlace(t *testing.T, from, place string) {
	t.Helper()
	file, anchor, _ := strings.Cut(place, "#")
	if _, err := os.Stat(file); err != nil {
		t.Errorf("%s leads to %s: %v", from, place, err)
	} else if anchor != "" && !anchors(t, file)[anchor] {
		t.Errorf("%s leads to %s, which has no such heading", from, place)
	}
}

// Each link of a Markdown file to another file of the repository leads to that
// file, and to its heading. The same is true of the "See:" of each known fault.
func TestMarkdownLinks(t *testing.T) {
	t.Parallel()
	links, faults := 0, 0
	eachFile(t, func(path string) {
		switch filepath.Ext(path) {
		case ".md":
			for _, found := range markdownLink.FindAllStringSubmatch(codeBlock.ReplaceAllString(readFile(t, path), ""), -1) {
				switch place := found[1]; {
				case strings.Contains(place, "://"):
				case strings.HasPrefix(place, "#"):
					requirePlace(t, path, path+place)
					links++
				default:
					requirePlace(t, path, filepath.Join(filepath.Dir(path), place))
					links++
				}
			}
		case ".diff":
			_, rest, _ := strings.Cut(readFile(t, path), "\nSee: ")
			place, _, _ := strings.Cut(rest, "\n")
			requirePlace(t, path, place)
			faults++
		}
	})
	require.Greater(t, links, 200)
	require.Greater(t, faults, 100)
}

var (
	notProse  = regexp.MustCompile("(?s)<!-- begin:.*?<!-- end:|`(?:Test|Example)\\w+`,?|\\]\\([^)]*\\)")
	marksOnly = regexp.MustCompile(`[|*#-]+`)
)

// A user is through with a page in five minutes: without its code, its links
// and its names of tests. Each page of a folder is in the folder's index.
func TestPagesOfDocuments(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"docs", filepath.Join("docs", "internals")} {
		index := readFile(t, folder, "README.md")
		for _, file := range glob(t, filepath.Join(folder, "*.md")) {
			if name := filepath.Base(file); name != "README.md" {
				require.Contains(t, index, "]("+name+")", "the index of %s lacks it", folder)
			}
			prose := codeBlock.ReplaceAllString(readFile(t, file), "")
			words := strings.Fields(marksOnly.ReplaceAllString(notProse.ReplaceAllString(prose, " "), " "))
			if folder == "docs" {
				require.LessOrEqual(t, len(words), 1250, file)
			}
		}
	}
}
