//go:build linux

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/test/harness"
)

// The messages that people meet: each says what happened, where, and what to type. What
// a check says of itself stands among them: it is read at 3 a.m., too.
func TestErrorMessages(t *testing.T) {
	t.Parallel()
	s, _ := startUp(t)
	s.Args = []string{"--demo", "60"}
	s.Start()
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(s.Dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	check := func(name, rest string) string {
		return "apiVersion: muster/v1\nkind: Check\nmetadata: {name: " + name + "}\nspec:\n  interval: 1s\n  " + rest + "\n"
	}
	if _, err := pki.Open(filepath.Join(s.Dir, "other"), []string{"localhost"}, time.Now); err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	file("field.yaml", check("typing", "comand: date\n  targets: {groups: [all]}"))
	file("unit.yaml", check("typing", "command: date\n  ttl: 300\n  targets: {groups: [all]}"))
	s.CLI("apply", "-f", file("names.yaml", "kind: Group\nmetadata: {name: web}\nspec: {where: 'node.labels.role == \"web\"'}\n---\nkind: Handler\nmetadata: {name: pager}\nspec: {command: 'true'}\n"))
	file("nobody.yaml", check("lonely", "command: date\n  targets: {groups: [wbe]}"))
	file("handler.yaml", check("lonely", "command: date\n  alert: {handlers: [pagr]}"))
	file("missing.yaml", check("missing", "command: check_nothing -w 1\n  targets: {groups: [all]}"))
	file("unset.yaml", check("unset", "command: 'echo {{ .props.nothing_warn }}'\n  targets: {groups: [all]}"))
	file("fleet.yaml", strings.Replace(check("wide", "command: date\n  targets: {groups: [fleet]}"), "{name: wide}", "{name: wide, namespace: demo}", 1))

	var text strings.Builder
	say := func(env []string, line string) {
		t.Helper()
		words := strings.Fields(strings.ReplaceAll(line, "DIR", s.Dir))
		r := harness.Run(t, append(s.Env(), env...), words...)
		fmt.Fprintf(&text, "$ muster %s\n%s%s", line, r.Out, r.Errors)
		if r.Code != 0 {
			fmt.Fprintf(&text, "[exit code %d]\n", r.Code)
		}
		text.WriteByte('\n')
	}
	say(nil, "--server https://"+harness.Port(t)+" status")
	say(nil, "--ca DIR/other/ca.crt status")
	say([]string{"MUSTER_SERVER=https://127.0.0.1:" + s.Listen[strings.LastIndexByte(s.Listen, ':')+1:]}, "status")
	token := s.CLI("auth", "token", "create", "--expires", "1s")
	expired := []string{"MUSTER_TOKEN=" + strings.TrimSpace(token)}
	harness.Until(t, 20*time.Second, "the token expires", func() (string, bool) {
		r := harness.Run(t, append(s.Env(), expired...), "auth", "whoami")
		return r.Out, r.Code == model.Unauthenticated.Exit()
	})
	say(expired, "status")
	say([]string{"MUSTER_TOKEN=" + strings.TrimSpace(s.CLI("auth", "token", "create"))}, "apply -f DIR/missing.yaml")
	for _, line := range []string{"lint DIR/field.yaml", "lint DIR/unit.yaml", "apply -f DIR/nobody.yaml", "apply -f DIR/handler.yaml",
		"apply -f DIR/missing.yaml -m try", "apply -f DIR/unset.yaml", "plan -f DIR/fleet.yaml", "apply -f DIR/fleet.yaml"} {
		say(nil, line)
	}
	for _, name := range []string{"missing", "unset"} {
		harness.Until(t, 30*time.Second, name+" has a result", func() (string, bool) {
			e := eventsByCheck(t, s)[name]
			if e.Results > 0 {
				fmt.Fprintf(&text, "the event %s is %s: %s\n\n", name, e.Status, e.Output)
			}
			return e.Output, e.Results > 0
		})
	}
	say(nil, "up --data "+s.Data)
	hide := []struct{ what, with string }{
		{regexp.QuoteMeta(s.Data), "DATA"}, {regexp.QuoteMeta(s.Dir), "DIR"}, {regexp.QuoteMeta(s.Listen), "LISTEN"}, {`(localhost|127\.0\.0\.1):\d+`, "$1:PORT"},
		{`\b` + regexp.QuoteMeta(host) + `\b`, "HOST"}, {`\d{4}-\d\d-\d\dT[0-9:]+Z`, "TIME"}, {`process \d+`, "process PID"},
		{`sha256:[0-9a-f]{16}…`, "SUM"},
		{`PATH is \S+`, "PATH is …"},
	}
	said := text.String()
	for _, h := range hide {
		said = regexp.MustCompile(h.what).ReplaceAllString(said, h.with)
	}
	golden(t, "messages.txt", said)
	s.Stop()
}
