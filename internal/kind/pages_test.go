package kind_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/muster-fleet/muster/internal/kind"
)

var aKind = regexp.MustCompile(`\bkind: [A-Z]`)

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// What pages tell people to write, and the examples, is right.
func TestPagesDeclareWhatIsRight(t *testing.T) {
	docs, err := filepath.Abs("../../docs")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	check := func(name, text string) {
		t.Helper()
		if !aKind.MatchString(text) {
			return // a part of one, or of a load scenario, whose kinds are small words
		}
		found++
		if _, err := kind.All().Read(name, []byte(text)); err != nil {
			t.Errorf("%v", err)
		}
	}
	err = filepath.WalkDir(docs, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && d.Name() == "parity" {
				return fs.SkipDir // what others write
			}
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch filepath.Ext(path) {
		case ".yaml":
			check(path, string(text))
		case ".md":
			for _, block := range yamlBlock.FindAllStringSubmatch(string(text), -1) {
				check(path, block[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 12 {
		t.Errorf("only %d were found", found)
	}
}
