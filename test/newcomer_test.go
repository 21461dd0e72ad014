//go:build linux

package test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/test/harness"
)

// newcomer is `muster up` in an empty folder, with an empty home.
func newcomer(t *testing.T) (s *harness.Server, home string) {
	t.Helper()
	s = harness.NewServer(t)
	dir := filepath.Dir(s.Data)
	home = filepath.Join(dir, "home")
	s.Command, s.Plain, s.Dir = "up", "", filepath.Join(dir, "work")
	s.Data = filepath.Join(s.Dir, "muster-data")
	s.Context = filepath.Join(home, ".config", "muster", "context.yaml")
	s.Environ = []string{"HOME=" + home}
	for _, d := range []string{home, s.Dir} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return s, home
}

// events are all events of the default namespace by check.
func events(t *testing.T, s *harness.Server) map[string]model.Event {
	t.Helper()
	var list struct {
		Items []model.Event `json:"items"`
	}
	text := s.CLI("get", "events", "-o", "json", "--limit", "0")
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("get events -o json: %v\n%s", err, text)
	}
	out := map[string]model.Event{}
	for _, e := range list.Items {
		out[e.Check] = e
	}
	return out
}

func TestNewcomerSeesResultsWithinFifteenSeconds(t *testing.T) {
	s, home := newcomer(t)
	began := time.Now()
	s.Start()
	harness.Until(t, 40*time.Second, "eight checks have results", func() (string, bool) {
		got := events(t, s)
		real := 0
		for _, e := range got {
			if e.Results > 0 && e.Output != "" && e.CheckID >= model.FirstCheck {
				real++
			}
		}
		return fmt.Sprint(got), real >= 8
	})
	took := time.Since(began)
	t.Logf("results of all checks after %s", took)
	if limit := 15 * time.Second; took > limit {
		t.Errorf("results after %s, want within %s", took, limit)
	}
	if out := s.CLI("status"); !strings.Contains(out, "1") || strings.TrimSpace(out) == "" {
		t.Errorf("status says %q", out)
	}

	// Nothing outside the data folder and the context file.
	var outside []string
	for _, root := range []string{home, s.Dir} {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if path == s.Data {
				return filepath.SkipDir
			}
			if err == nil && !d.IsDir() && path != s.Context {
				outside = append(outside, path)
			}
			return err
		})
	}
	if len(outside) > 0 {
		t.Errorf("files outside the data folder: %v", outside)
	}

	// A kill leaves nothing running and nothing that stops the next start, which finds
	// what was there.
	pid := s.PID()
	before := events(t, s)["disk"]
	s.Kill()
	if left := childrenOf(pid); len(left) > 0 {
		t.Errorf("still running after the kill: %v", left)
	}
	s.Start()
	if after := events(t, s)["disk"]; after.Results < before.Results || after.NodeID != before.NodeID {
		t.Errorf("disk was %+v, is %+v", before, after)
	}
	s.Stop()
}

// childrenOf are the command lines of processes in the session or group of a process.
func childrenOf(pid int) (out []string) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		text := string(data)
		var state string
		var parent int
		if _, err := fmt.Sscan(text[strings.LastIndexByte(text, ')')+1:], &state, &parent); err == nil && parent == pid {
			out = append(out, text)
		}
	}
	return out
}

// docs/first-run.md, with shorter intervals: a check of one's own fails, a problem
// opens, a handler's command is called; it recovers, and the handler hears that too.
func TestFirstRun(t *testing.T) {
	s, _ := newcomer(t)
	s.Start()
	if out := s.CLI("apply", "-f", filepath.Join(harness.Root(), "docs/examples/disk.yaml"), "-m", "the example"); !strings.Contains(out, "disk-strict") {
		t.Errorf("apply says %q", out)
	}
	page, err := os.ReadFile(filepath.Join(harness.Root(), "docs/first-run.md"))
	if err != nil {
		t.Fatal(err)
	}
	notebook := filepath.Join(s.Dir, "notebook.jsonl")
	watched := filepath.Join(s.Dir, "files")
	if err := os.Mkdir(watched, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(watched, "one"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	replace := strings.NewReplacer("/tmp/muster-notebook.jsonl", notebook, "ls /tmp ", "ls "+watched+" ", "interval: 30s", "interval: 1s")
	for name, text := range yamlOf(t, string(page)) {
		if err := os.WriteFile(filepath.Join(s.Dir, name), []byte(replace.Replace(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	api := s.Client()
	status := func(want model.Status, problem bool) {
		t.Helper()
		harness.Until(t, 30*time.Second, fmt.Sprintf("tmp-files is %s, problem %v", want, problem), func() (string, bool) {
			e := events(t, s)["tmp-files"]
			return fmt.Sprintf("%+v", e), e.Results > 0 && e.Status == want && (e.Problem != nil) == problem
		})
	}
	told := func(n int) []string {
		var lines []string
		harness.Until(t, 30*time.Second, fmt.Sprintf("%d lines in the notebook", n), func() (string, bool) {
			data, _ := os.ReadFile(notebook)
			lines = strings.Split(strings.TrimSpace(string(data)), "\n")
			return string(data), len(lines) >= n && lines[0] != ""
		})
		return lines
	}
	s.CLI("lint", filepath.Join(s.Dir, "disk.yaml"))
	s.CLI("apply", "-f", filepath.Join(s.Dir, "disk.yaml"), "-m", "count files")
	status(model.OK, false)
	s.CLI("apply", "-f", filepath.Join(s.Dir, "property.yaml"), "-m", "make it fail")
	status(model.Warning, true)
	told(1)
	s.CLI("delete", "property", "tmp_max", "-m", "it may recover", "--yes")
	status(model.OK, false)
	lines := told(2)
	if len(lines) != 2 || !strings.Contains(lines[0], "opened") || !strings.Contains(lines[1], "closed") {
		t.Errorf("the handler was told:\n%s", strings.Join(lines, "\n"))
	}
	for _, line := range lines {
		if !json.Valid([]byte(line)) || !strings.Contains(line, "tmp-files") {
			t.Errorf("the handler was given %q", line)
		}
	}
	problems, err := api.Problems(t.Context(), "default", "", "tmp-files", false, 10, "")
	if err != nil || len(problems.Items) != 1 || problems.Items[0].Closed.IsZero() {
		t.Errorf("problems: %+v, %v", problems, err)
	}
	s.Stop()
}

// yamlOf are the YAML examples of a page by the file name in their first line.
func yamlOf(t *testing.T, page string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, block := range strings.Split(page, "```yaml\n")[1:] {
		text, _, _ := strings.Cut(block, "```")
		name, _, ok := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
		if !ok {
			t.Fatalf("example without a name: %q", text)
		}
		out[name] = text
	}
	return out
}
