//go:build linux

package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/test/harness"
)

// A check whose output has metrics fails by a threshold; its hook looks at the machine; both
// stand with the event, and the hook's words reach who is told.
func TestHooksAndThresholdsInNotification(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.Login()
	a := s.NewAgent("web01")
	a.Start()
	told := filepath.Join(t.TempDir(), "told")
	s.Apply(`apiVersion: muster/v1
kind: Handler
metadata: {name: notebook}
spec: {command: "cat >> ` + told + `; echo >> ` + told + `"}
---
apiVersion: muster/v1
kind: Check
metadata: {name: jobs}
spec:
  targets: {groups: [all]}
  interval: 1s
  command: [cat]
  stdin: |
    all is well
    jobs.waiting;queue=mail 42
    jobs.waiting;queue=print 1
  metrics: {format: graphite, tags: {team: print}}
  thresholds: [{metric: jobs.waiting, critical: {max: 10}}]
  hooks:
    - {name: locks, when: [critical], command: echo the lock is held by 4711}
    - {name: fine, when: [ok], command: echo never}
  alert: {handlers: [notebook]}
`)
	harness.Until(t, time.Minute, "somebody is told", func() (string, bool) {
		text, _ := os.ReadFile(told)
		return string(text), strings.Contains(string(text), `"hooks":[{"name":"locks","status":0,"output":"the lock is held by 4711"`)
	})
	for _, want := range []string{"CRITICAL: jobs.waiting{queue=mail,team=print} is 42, more than 10", "hook locks (took ", "  the lock is held by 4711", "jobs.waiting{queue=print,team=print} = 1"} {
		if out := s.CLI("describe", "event", "web01/jobs"); !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	yaml := s.CLI("get", "event", "web01/jobs", "-o", "yaml")
	for _, want := range []string{"name: jobs.waiting", "queue: mail", "name: locks"} {
		if !strings.Contains(yaml, want) {
			t.Errorf("no %q in\n%s", want, yaml)
		}
	}
}
