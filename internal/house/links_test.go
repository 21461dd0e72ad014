package house

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// What a page points to in the tree is there, and every page of docs is pointed to.
func TestLinksLeadToPagesAndPagesAreLinked(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	linked, pages := map[string]bool{}, []string{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "testdata" || d.Name() == "bin" || d.Name() == "muster-data"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		pages = append(pages, path)
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, l := range link.FindAllStringSubmatch(string(text), -1) {
			to, err := url.Parse(l[1])
			if err != nil || to.Scheme != "" || to.Path == "" {
				continue
			}
			target := filepath.Join(filepath.Dir(path), filepath.FromSlash(to.Path))
			linked[target] = true
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s points to %s, which is not there", path, l[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if strings.HasPrefix(page, filepath.Join(root, "docs")+string(filepath.Separator)) && !linked[page] && !linked[filepath.Dir(page)] {
			t.Errorf("no page points to %s", page)
		}
	}
}
