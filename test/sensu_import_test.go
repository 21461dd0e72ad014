//go:build linux

package test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// lossLine matches a line of an import about a field that was not carried: FILE:LINE, type and name, reason.
var lossLine = regexp.MustCompile(`^! .+:\d+: \w+( [^ ]+)?: .+`)

// TestSensuFilesLintAndPlan imports Sensu's resource files, and expects lint and plan to accept the results.
// MUSTER_SENSU_DATA names the folder of the files; the server is empty. Each loss has file, line, resource and reason.
func TestSensuFilesLintAndPlan(t *testing.T) {
	folder := os.Getenv("MUSTER_SENSU_DATA")
	if folder == "" {
		testenv.Skip(t, "no folder with resource files of Sensu is named", "MUSTER_SENSU_DATA=FOLDER go test ./test -run TestSensuFilesLintAndPlan")
	}
	s := harness.StartServer(t)
	s.Login()
	read := 0
	err := filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		if ext := filepath.Ext(file); err != nil || entry.IsDir() || ext != ".yaml" && ext != ".yml" && ext != ".json" {
			return err
		}
		read++
		out := filepath.Join(t.TempDir(), "out.yaml")
		r := s.Try("import", "sensu", file, "--out", out)
		if r.Code != 0 {
			t.Errorf("%s: code %d: %s", file, r.Code, r.Errors)
			return nil
		}
		for line := range strings.Lines(r.Errors) {
			if strings.HasPrefix(line, "! ") && !lossLine.MatchString(line) {
				t.Errorf("%s: %s", file, line)
			}
		}
		if info, err := os.Stat(out); err != nil || info.Size() == 0 {
			return nil // no resource remains
		}
		for _, args := range [][]string{{"lint", out}, {"plan", "-f", out}} {
			if r := s.Try(args...); r.Code != 0 {
				t.Errorf("%s: muster %v: code %d\n%s%s", file, args[0], r.Code, r.Out, r.Errors)
			}
		}
		return nil
	})
	testenv.NoError(t, err)
	require(t, read > 0, "there are no files in %s", folder)
}

// TestMetricsOfParityPageExist expects the server to have each metric named in docs/parity/sensu.md. An agent
// has connected to the server and left.
func TestMetricsOfParityPageExist(t *testing.T) {
	t.Parallel()
	listen := harness.ReservePort(t)
	s := harness.StartServer(t, "--sensu-listen", listen, "--sensu-tls", "off")
	s.CLI("auth", "user", "create", "agent", "--role", "agent", "--password-file", tempFile(t, "password", "P@ssw0rd!"))
	conn := dialSensuAgent(t, listen, "web1")
	_ = conn.Close()
	s.AwaitMetric(1, "muster_sensu_ended_total")
	_, text, err := s.GetAdmin("/metrics")
	testenv.NoError(t, err)
	_, section, _ := strings.Cut(string(readFile(t, "../docs/parity/sensu.md")), "\n### Metrics of the backend\n")
	section, _, _ = strings.Cut(section, "\n## ")
	names := regexp.MustCompile("`(muster_[a-z_]+)").FindAllStringSubmatch(section, -1)
	require(t, len(names) > 10, "the page names the metrics %v", names)
	for _, name := range names {
		assert(t, strings.Contains(text, "\n# TYPE "+name[1]+" "), "the server has no metric %s", name[1])
	}
}
