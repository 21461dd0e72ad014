package house

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// TestBenchmarkResultsNameExistingCommits fails if a kept benchmark result names no commit of the history. People need
// the commit to repeat the measurement. A line of a text that names another commit has to say so.
func TestBenchmarkResultsNameExistingCommits(t *testing.T) {
	const again = "go test ./internal/house -run BenchmarkResults, in a whole clone (git fetch --unshallow)"
	if _, err := exec.LookPath("git"); err != nil {
		testenv.Skip(t, "git is not installed", "sudo apt-get install git")
	}
	shallow, err := exec.Command("git", "rev-parse", "--is-shallow-repository").Output()
	switch {
	case err != nil:
		testenv.Skip(t, "this is no git repository", again)
	case strings.TrimSpace(string(shallow)) != "false":
		testenv.Skip(t, "this clone does not have the whole history", again)
	}
	root, results, hash := os.DirFS("../../bench/results"), 0, regexp.MustCompile(`\b[0-9a-f]{7,40}\b`)
	err = fs.WalkDir(root, ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".json" && filepath.Ext(path) != ".txt" {
			return err
		}
		results++
		data, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		var commits []string
		if filepath.Ext(path) == ".json" {
			var of struct{ Commit string }
			if err := json.Unmarshal(data, &of); err != nil {
				t.Errorf("bench/results/%s: %v", path, err)
				return nil
			}
			commits = []string{of.Commit}
		} else {
			for line := range strings.Lines(string(data)) {
				if !strings.Contains(line, "outside this history") {
					commits = append(commits, hash.FindAllString(line, -1)...)
				}
			}
		}
		for _, commit := range commits {
			if !strings.ContainsAny(commit, "abcdef") {
				continue // a number
			}
			out, err := exec.Command("git", "merge-base", "--is-ancestor", commit, "HEAD").CombinedOutput()
			if err != nil {
				t.Errorf("bench/results/%s measured commit %q, which is not in the history of this one (%v %s): measure it anew, from main", path, commit, err, out)
			}
		}
		return nil
	})
	if err != nil || results == 0 {
		t.Errorf("%d results, %v", results, err)
	}
}
