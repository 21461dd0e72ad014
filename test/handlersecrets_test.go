//go:build linux

package test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/test/harness"
)

// A handler names Secrets: each message has the value of its time, one that is not there now is
// tried again, and the values stand nowhere else.
func TestHandlerSecrets(t *testing.T) {
	t.Parallel()
	values := map[string]string{"first": randomText(t), "second": randomText(t), "env": randomText(t)}
	asked := make(chan string, 100)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	}))
	t.Cleanup(service.Close)
	next := func(what, value string) {
		t.Helper()
		select {
		case got := <-asked:
			if got != value {
				t.Fatalf("%s: the token is another", what)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: nothing within a minute", what)
		}
	}
	dir := t.TempDir()
	file, told := filepath.Join(dir, "token"), filepath.Join(dir, "told")
	write := func(value string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(values["first"])

	s := harness.NewServer(t)
	s.Environ = []string{"PAGER_KEY=" + values["env"]}

	s.Start()
	s.Environ = nil
	s.Login()
	s.Apply(fmt.Sprintf(`{kind: Secret, metadata: {name: hook}, spec: {file: %q}}
---
{kind: Secret, metadata: {name: key, namespace: shared}, spec: {env: PAGER_KEY}}
---
kind: Handler
metadata: {name: hook}
spec: {webhook: {url: %q, token: {secret: hook}}}
---
kind: Handler
metadata: {name: program}
spec:
  command: 'echo "the key is $KEY"; printf %%s "$KEY" | sha256sum >> %s'
  secrets: [{env: KEY, secret: shared/key}]
---
{kind: Namespace, metadata: {name: default}, spec: {handlers: [hook, program]}}
`, file, service.URL, told))
	tested := s.CLI("handler", "test", "hook") + s.CLI("handler", "test", "program")
	if !strings.Contains(tested, "Authorization: Bearer (hidden)") || !strings.Contains(tested, "the key is (hidden)") {
		t.Errorf("%s", tested)
	}
	next("the test", values["first"])

	// The next is told with the next value; while there is none, it waits and says why.
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	harness.Until(t, time.Minute, "what a test says without the file", func() (string, bool) {
		r := s.Try("handler", "test", "hook")
		for len(asked) > 0 {
			<-asked // of the moment for which the value is kept
		}
		return r.Out + r.Errors, strings.Contains(r.Out, "secret default/hook cannot be had: on the server: open "+file) && r.Code == 9
	})
	a := s.NewAgent("web01")
	a.Start()
	check := s.Counter("disk", "web01")
	check.AwaitRuns(1)
	check.Exit(2)
	waits := ""
	harness.Until(t, time.Minute, "the message waits", func() (string, bool) {
		waits = s.CLI("why", "web01/disk")
		return waits, strings.Contains(waits, "secret default/hook cannot be had: on the server: open "+file)
	})
	harness.Until(t, time.Minute, "the program was told", func() (string, bool) {
		out, _ := os.ReadFile(told)
		return string(out), strings.Count(string(out), digest(values["env"])) == 2
	})
	write(values["second"])
	next("the opening", values["second"])
	check.Exit(0)
	next("the closing", values["second"])

	find := &secretFinder{t, values}
	for where, text := range map[string]string{
		"a test": tested, "why": waits + s.CLI("why", "web01/disk"), "log": s.Log(), "audit": s.CLI("audit", "-o", "json"), "history": s.CLI("get", "history", "-o", "json"),
		"handlers": s.CLI("get", "handlers", "-o", "yaml") + s.CLI("get", "handlers") + s.CLI("describe", "handler", "hook"), "secrets": s.CLI("get", "secrets", "-o", "yaml"),
	} {
		if names := find.search(where, []byte(text)); len(names) > 0 {
			t.Errorf("%s holds %v", where, names)
		}
	}
	if r := s.Try("delete", "secret", "hook"); r.Code != 4 || !strings.Contains(r.Errors, "handler/hook refers to secret/hook in spec.webhook.token.secret") {
		t.Errorf("%d %s%s", r.Code, r.Out, r.Errors)
	}
	a.Stop()
	s.Stop()
	if find.searchFolder(s.Data, told) == 0 {
		t.Error("the handler stands in no file of the server: where was looked?")
	}
}
