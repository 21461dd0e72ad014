//go:build linux

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// logTemplate follows a log, and has a trigger on its last line.
const logTemplate = `
kind: Template
metadata: {name: app}
spec:
  targets: {groups: [all]}
  items: [{key: "log[%[1]s,line]", type: log, interval: 1s}, {key: "log.count[%[1]s,line]", type: unsigned, interval: 1s}]
  triggers: [{name: app is in panic, expression: 'find(//log[%[1]s,line],,"like","panic")=1', severity: high}]
`

// TestLogLinesArriveOnce writes numbered lines to a rotated log, and expects the server to keep each line once. The
// log is rotated by renaming and by copying, and server and agent are killed in turn. The lines keep their order, a
// search finds the lines by their words, and a line with panic opens a problem.
func TestLogLinesArriveOnce(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--snapshot-cycle", "2s")
	s.Login()
	path := filepath.Join(t.TempDir(), "app.log")
	write := func(line string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		testenv.NoError(t, err)
		_, err = fmt.Fprintln(f, line)
		testenv.NoError(t, err)
		testenv.NoError(t, f.Close())
	}
	write("first line")
	agent := s.StartAgent("db1")
	s.Apply(fmt.Sprintf(logTemplate, path))
	s.AwaitOutput("get texts", "first line")
	want := []string{"first line"}
	for round := range 6 {
		for n := range 50 {
			want = append(want, fmt.Sprintf("line %d of round %d", n, round))
			write(want[len(want)-1])
		}
		switch round {
		case 0, 3:
			agent.Kill()
			agent.Start()
		case 1:
			testenv.NoError(t, os.Rename(path, path+".1"))
		case 2, 5:
			s.Kill()
			s.Launch()
			s.WaitReady(40 * time.Second)
		case 4:
			data, err := os.ReadFile(path)
			testenv.NoError(t, err)
			testenv.NoError(t, os.WriteFile(path+".2", data, 0o600))
			testenv.NoError(t, os.Truncate(path, 0))
			agent.Kill()
			agent.Start()
		}
		write("not counted")
	}
	want = append(want, "the last line: panic")
	write(want[len(want)-1])
	harness.Until(t, 60*time.Second, "all lines", func() (string, bool) {
		list, err := s.Client().Texts(t.Context(), v1.TextFilter{Namespace: "default", Node: "db1", Limit: 10_000})
		if err != nil || len(list.Items) == 0 {
			return fmt.Sprint(err), false
		}
		var got []string
		for _, v := range list.Items {
			got = append(got, v.Text)
		}
		return fmt.Sprintf("%d lines of %d, the last one %q", len(got), len(want), got[len(got)-1]), strings.Join(got, "\n") == strings.Join(want, "\n")
	})
	item := "db1/log[" + path + ",line]"
	harness.Run(t, s.Env(), "get", "texts", item, "--match", "ROUND 3 49").Expect(0, "line 49 of round 3").ExpectNot("line 48 of round 3")
	harness.Run(t, s.Env(), "get", "texts", "--contains", "of round 3", "--limit", "1").Expect(0, "line 49 of round 3", "older texts match")
	harness.Run(t, s.Env(), "describe", "item", item).Expect(0, "the last line: panic", "app is in panic: PROBLEM")
	s.AwaitOutput("get problems", "db1", "app:app is in panic")
}
