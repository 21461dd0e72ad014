package house

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestLinksAndPagesMatch fails for a link to a missing file or heading, and for a page without a link.
func TestLinksAndPagesMatch(t *testing.T) {
	root, err := filepath.Abs("../..")
	testenv.NoError(t, err)
	linked, pages := map[string]bool{}, map[string]string{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "testdata" || d.Name() == "bin" || d.Name() == "muster-data"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		pages[path] = string(text)
		return err
	})
	testenv.NoError(t, err)
	for path, text := range pages {
		for _, l := range link.FindAllStringSubmatch(text, -1) {
			to, err := url.Parse(l[1])
			if err != nil || to.Scheme != "" {
				continue
			}
			target := path
			if to.Path != "" {
				target = filepath.Join(filepath.Dir(path), filepath.FromSlash(to.Path))
				linked[target] = true
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which does not exist", path, l[1])
			} else if text, read := pages[target]; read && to.Fragment != "" && !anchorsOf(text)[to.Fragment] {
				t.Errorf("%s points to %s: the page has no such heading", path, l[1])
			}
		}
	}
	for page := range pages {
		if strings.HasPrefix(page, filepath.Join(root, "docs")+string(filepath.Separator)) && !linked[page] && !linked[filepath.Dir(page)] {
			t.Errorf("no page points to %s", page)
		}
	}
}

// TestNamedPagesExist fails if help, hints, comments or the change log name a page that does not exist.
func TestNamedPagesExist(t *testing.T) {
	named := regexp.MustCompile(`\bdocs/[a-z0-9/_-]+\.md\b`)
	for _, tree := range []string{"internal", "cmd", "bench", "test", "deploy", "scripts", "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile"} {
		err := filepath.WalkDir(filepath.Join("../..", tree), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				if err == nil && d.Name() == "testdata" {
					return filepath.SkipDir
				}
				return err
			}
			switch filepath.Ext(path) {
			case ".go", ".md", ".sh", ".yaml", "":
			default:
				return nil
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, name := range named.FindAllString(string(text), -1) {
				if _, err := os.Stat(filepath.Join("../..", name)); err != nil {
					t.Errorf("%s names %s, which does not exist", path, name)
				}
			}
			return nil
		})
		testenv.NoError(t, err)
	}
}

var (
	fence   = regexp.MustCompile("(?ms)^```.*?^```$")
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+?)\s*$`)
	html    = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N}\p{M} _-]`)
)

// anchorsOf returns the anchors of a page, for links with #. Headings are written as the forges do (small letters, no
// punctuation, hyphens for blanks, a number behind a repeated heading); HTML anchors count, too.
func anchorsOf(text string) map[string]bool {
	list, seen := map[string]bool{}, map[string]int{}
	text = fence.ReplaceAllString(text, "")
	for _, h := range heading.FindAllStringSubmatch(text, -1) {
		words := link.ReplaceAllString(h[1], "]")
		name := strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(words), ""), " ", "-")
		if n := seen[name]; n > 0 {
			list[name+"-"+strconv.Itoa(n)] = true
		} else {
			list[name] = true
		}
		seen[name]++
	}
	for _, a := range html.FindAllStringSubmatch(text, -1) {
		list[a[1]] = true
	}
	return list
}

// TestAnchorsMatchTheForges compares the anchors of headings with the forges' anchors. The headings have markup,
// links, code and repetitions.
func TestAnchorsMatchTheForges(t *testing.T) {
	text := "# The *first* `muster` run: 0.1?\n\n```\n# no heading\n```\n\n## [A link](to.md) here\n## Twice\n## Twice\n<a id=\"own\"></a>\n"
	got := anchorsOf(text)
	want := []string{"the-first-muster-run-01", "a-link-here", "twice", "twice-1", "own"}
	for _, name := range want {
		if !got[name] {
			t.Errorf("no %s in %v", name, got)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
}
