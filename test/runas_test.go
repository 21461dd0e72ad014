//go:build linux

package test

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// A check that runs as another user has his rights, none of the agent's, and learns
// nothing from the agent's environment.
func TestRunAs(t *testing.T) {
	testenv.Root(t)
	nobody, err := user.Lookup("nobody")
	if err != nil {
		testenv.LeftOut(t, "there is no user nobody", "useradd nobody")
	}
	t.Parallel()
	s := harness.StartServer(t)
	api := s.Client()
	a := s.NewAgent("rooted")
	a.Process = harness.Launch(t, []string{
		"MUSTER_TOKEN=" + a.Token, "LANG=C.UTF-8", "TZ=UTC", "HTTPS_PROXY=http://ann:s3cret@127.0.0.1:9", "NO_PROXY=127.0.0.1", "AWS_SECRET_ACCESS_KEY=s3cret",
		"LD_LIBRARY_PATH=/root/lib", "BASH_ENV=/root/env", "ENV=/root/env",
	}, append([]string{"agent", "--state-dir", a.State, "--name", a.Name}, a.Args...)...)
	const all = `targets: {groups: [all]}, interval: 1m`
	s.Apply(`
{apiVersion: muster/v1, kind: Property, metadata: {name: who}, spec: {value: nobody}}
---
{apiVersion: muster/v1, kind: Property, metadata: {name: empty}, spec: {value: ""}}
---
{apiVersion: muster/v1, kind: Property, metadata: {name: root-again}, spec: {property: tricky, value: "nobody root"}}
---
{apiVersion: muster/v1, kind: Check, metadata: {name: id}, spec: {` + all + `, runAs: nobody, command: 'echo "$(id -u) $(id -g) groups: $(id -G)"'}}
---
{apiVersion: muster/v1, kind: Check, metadata: {name: by-property}, spec: {` + all + `, runAs: "{{ .props.who }}", command: 'id -un'}}
---
{apiVersion: muster/v1, kind: Check, metadata: {name: shadow}, spec: {` + all + `, runAs: nobody, command: 'cat /etc/shadow; cat ` + filepath.Join(a.State, "identity.json") + `; cat /proc/$PPID/environ; kill -0 $PPID && echo may kill'}}
---
{apiVersion: muster/v1, kind: Check, metadata: {name: env}, spec: {` + all + `, runAs: nobody, env: {OWN: own}, command: 'env | sort; ls -l /proc/$$/fd'}}
---
{apiVersion: muster/v1, kind: Check, metadata: {name: terminal}, spec: {` + all + `, runAs: nobody, command: '(exec </dev/tty) 2>/dev/null && echo has a terminal; test "$(cut -d" " -f6 /proc/$$/stat)" = $$ && echo own session'}}
---
{apiVersion: muster/v1, kind: Check, metadata: {name: empty}, spec: {` + all + `, runAs: "{{ .props.empty }}", command: 'id -u'}}
---
{apiVersion: muster/v1, kind: Check, metadata: {name: tricky}, spec: {` + all + `, runAs: "{{ .props.tricky }}", command: 'id -u'}}
---
{apiVersion: muster/v1, kind: Check, metadata: {name: number}, spec: {` + all + `, runAs: "0", command: 'id -u'}}
---
{apiVersion: muster/v1, kind: Check, metadata: {name: nobody-there}, spec: {` + all + `, runAs: no-such-user, command: 'id -u'}}
---
{apiVersion: muster/v1, kind: Check, metadata: {name: own}, spec: {` + all + `, command: 'env | sort'}}
`)
	result := func(check string) v1.Event {
		t.Helper()
		var e v1.Event
		harness.Until(t, 60*time.Second, check+" has a result", func() (string, bool) {
			e = eventOf(t, api, "rooted", check)
			return a.Log()[max(0, len(a.Log())-500):], e.Results > 0
		})
		return e
	}
	if e := result("id"); !strings.HasPrefix(e.Output, nobody.Uid+" "+nobody.Gid+" groups: ") || strings.Contains(e.Output, " 0") {
		t.Errorf("id: %s", e.Output)
	}
	if e := result("by-property"); strings.TrimSpace(e.Output) != "nobody" {
		t.Errorf("by property: %s", e.Output)
	}
	if e := result("shadow"); strings.Contains(e.Output, "root:") || strings.Contains(e.Output, "key") || strings.Contains(e.Output, "may kill") || strings.Contains(e.Output, "s3cret") {
		t.Errorf("what only root may read: %s", e.Output)
	}
	e := result("env")
	for _, bad := range []string{"s3cret", "MUSTER_", "LD_LIBRARY_PATH", "BASH_ENV"} {
		if strings.Contains(e.Output, bad) {
			t.Errorf("the environment of another user has %s:\n%s", bad, e.Output)
		}
	}
	for _, want := range []string{"HOME=" + nobody.HomeDir, "USER=nobody", "LOGNAME=nobody", "LANG=C.UTF-8", "TZ=UTC", "OWN=own"} {
		if !strings.Contains(e.Output, want) {
			t.Errorf("the environment of another user lacks %s:\n%s", want, e.Output)
		}
	}
	descriptors := 0
	for line := range strings.Lines(e.Output) {
		before, link, ok := strings.Cut(strings.TrimSpace(line), " -> ")
		if !ok {
			continue
		}
		fd, err := strconv.Atoi(before[strings.LastIndexByte(before, ' ')+1:])
		if err != nil {
			t.Fatal(line)
		}
		descriptors++
		// What whoever runs the tests has left open comes through; what the agent opens does not.
		if ours, err := os.Readlink(fmt.Sprint("/proc/self/fd/", fd)); fd > 2 && (err != nil || ours != link) {
			t.Errorf("the command of another user holds %s, descriptor %d", link, fd)
		}
	}
	if descriptors < 3 {
		t.Errorf("no descriptors are seen:\n%s", e.Output)
	}
	if e := result("terminal"); strings.TrimSpace(e.Output) != "own session" {
		t.Errorf("terminal: %q", e.Output)
	}
	for check, says := range map[string]string{"empty": "is empty", "tricky": "no such user", "number": "no such user", "nobody-there": "no such user"} {
		if e := result(check); e.Status != model.Unknown || !strings.Contains(e.Output, says) {
			t.Errorf("%s: %s %s", check, e.Status, e.Output)
		}
	}
	if e := result("own"); strings.Contains(e.Output, "MUSTER_TOKEN") || !strings.Contains(e.Output, "HTTPS_PROXY") {
		t.Errorf("the agent's own user: %s", e.Output)
	}
}
