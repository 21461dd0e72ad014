//go:build linux

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/test/harness"
)

// A handler's program comes from an asset of the server's own store: a problem opens, and the
// script in the archive runs with the notification on its standard input. What is wrong with an
// archive stands where people look for a message that did not leave, and is mended by the
// command that is said there.
func TestHandlerAssets(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.Login()
	dir := t.TempDir()
	told := filepath.Join(dir, "told")
	good, sum := writeArchive(t, map[string]string{
		"bin/tell": "#!/bin/sh\necho \"$0 $1 $TELL_TOOLS_PATH $LD_LIBRARY_PATH $CPATH\" >> \"$OUT.env\"\ncat >> \"$OUT\"\n", "share/word": "hello",
	})
	handler := func(name, asset string) string {
		return fmt.Sprintf("---\nkind: Handler\nmetadata: {name: %s}\nspec: {command: [tell, --now], assets: [%s], env: {OUT: %q}}\n", name, asset, filepath.Join(dir, name))
	}
	file := filepath.Join(dir, "handler.yaml")
	writeFile(t, file, []byte(handler("told", "tell-tools")))
	if r := s.Try("apply", "-f", file); r.Code == 0 || !strings.Contains(r.Errors, `asset "tell-tools" does not exist`) {
		t.Fatalf("a handler that names an asset that is not there:\n%s", r.Errors)
	}
	s.CLI("asset", "add", "tell-tools", good, "--os", "linux", "--arch", runtime.GOARCH)
	s.Apply(handler("told", "tell-tools") + "---\nkind: Namespace\nmetadata: {name: default}\nspec: {handlers: [told]}\n")
	if out := s.CLI("handler", "test", "told"); !strings.Contains(out, "tell") {
		t.Error(out)
	}
	env, _ := os.ReadFile(told + ".env")
	where := filepath.Join(s.Data, "tools", sum)
	if want := fmt.Sprintf("%[1]s/bin/tell --now %[1]s %[1]s/lib %[1]s/include\n", where); string(env) != want {
		t.Errorf("the script had %q, want %q", env, want)
	}
	s.NewAgent("web01").Start()
	check := s.Counter("disk", "web01")
	check.AwaitRuns(1)
	check.Exit(2)
	lines := func(of string, n int) {
		t.Helper()
		harness.Until(t, time.Minute, of, func() (string, bool) {
			out, _ := os.ReadFile(filepath.Join(dir, of))
			return string(out), strings.Count(string(out), "\n") >= n
		})
	}
	lines("told", 2)
	if out, _ := os.ReadFile(told); !strings.Contains(string(out), `"kind":"opened"`) || !strings.Contains(string(out), `"node":"web01"`) {
		t.Errorf("%s", out)
	}
	if r := s.Try("delete", "asset", "tell-tools", "--yes"); !strings.Contains(r.Errors, "handler/told") {
		t.Errorf("an asset that a handler names went: %s%s", r.Out, r.Errors)
	}

	doctor := func(words ...string) {
		t.Helper()
		r := s.Try("doctor", "--data", s.Data, "--admin", s.Admin, "--agents", "10")
		out := strings.Join(strings.Fields(r.Out), " ")
		for _, want := range words {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s%s", want, r.Out, r.Errors)
			}
		}
	}
	t.Run("no build for the server", func(t *testing.T) {
		s.CLI("asset", "add", "elsewhere", good, "--os", "plan9")
		s.Apply(handler("plan9", "elsewhere"))
		if r := s.Try("handler", "test", "plan9"); r.Code != 9 || !strings.Contains(r.Out, "asset default/elsewhere has no archive for the server's machine (linux "+runtime.GOARCH) {
			t.Errorf("%d %s%s", r.Code, r.Out, r.Errors)
		}
	})
	t.Run("not uploaded yet", func(t *testing.T) {
		late, lateSum := writeArchive(t, map[string]string{"bin/tell": "#!/bin/sh\ncat >> \"$OUT\"\n"})
		s.Apply(fmt.Sprintf("---\nkind: Asset\nmetadata: {name: late}\nspec: {builds: [{sha512: %s}]}\n", lateSum) + handler("late", "late") +
			"---\nkind: Namespace\nmetadata: {name: default}\nspec: {handlers: [told, late]}\n")
		check.Exit(0)
		lines("told", 3)
		check.Exit(2)
		lines("told", 4) // the other is not held back
		harness.Until(t, time.Minute, "the message waits", func() (string, bool) {
			r := s.Try("why", "web01/disk")
			out := strings.Join(strings.Fields(r.Out), " ")
			return r.Out + r.Errors, strings.Contains(out, "asset default/late is not here: the server does not have the archive") && strings.Contains(out, "nobody has uploaded it")
		})
		doctor("asset default/late", "nobody has uploaded it", "muster asset add late FILE -n default")
		s.CLI("asset", "add", "late", late)
		lines("late", 1)
	})
	t.Run("damaged", func(t *testing.T) {
		s.Stop()
		if err := os.Remove(filepath.Join(where, "bin/tell")); err != nil {
			t.Fatal(err)
		}
		s.Start()
		s.WaitReady(time.Minute)
		if r := s.Try("handler", "test", "told"); r.Code != 0 { // extracted again
			t.Errorf("%s%s", r.Out, r.Errors)
		}
		s.Stop()
		if err := os.RemoveAll(where); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(s.Data, "assets", sum), []byte("flipped"))
		s.Start()
		s.WaitReady(time.Minute)
		harness.Until(t, time.Minute, "what a test says", func() (string, bool) {
			r := s.Try("handler", "test", "told")
			return r.Out + r.Errors, r.Code == 9 && strings.Contains(r.Out, "asset default/tell-tools is not here: what the server has of the archive "+sum[:12]+"… is damaged")
		})
		if out := s.CLI("asset", "list"); !strings.Contains(out, "is damaged") {
			t.Error(out)
		}
		doctor("asset default/tell-tools for linux "+runtime.GOARCH, "is damaged", "muster asset add tell-tools FILE -n default")
		s.CLI("asset", "add", "tell-tools", good, "--os", "linux", "--arch", runtime.GOARCH)
		harness.Until(t, time.Minute, "it is mended", func() (string, bool) {
			r := s.Try("handler", "test", "told")
			return r.Out + r.Errors, r.Code == 0
		})
	})
}

// What is kept from Sensu has assets, too: a mutator's program, and the JavaScript that filters
// and mutators use.
func TestFilterAndMutatorAssets(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.Login()
	dir := t.TempDir()
	scripts, _ := writeArchive(t, map[string]string{
		"lib/often.js": "// which occurrences count\nfunction often(event, n) { return event.check.occurrences % n == 0 }",
		"lib/words.js": "var words = {of: function (event) { return event.entity.name + ' ' + event.check.occurrences }}",
	})
	program, _ := writeArchive(t, map[string]string{"bin/shorten": "#!/bin/sh\ncat > /dev/null\necho shortened\n"})
	s.CLI("asset", "add", "scripts", scripts)
	s.CLI("asset", "add", "programs", program)
	s.Apply(`kind: Handler
metadata: {name: words}
spec: {command: "cat >> ` + dir + `/words"}
---
kind: Handler
metadata: {name: short}
spec: {command: "cat >> ` + dir + `/short"}
---
kind: Filter
metadata: {name: often}
spec: {action: allow, expressions: ["often(event, 3)"], assets: [scripts]}
---
kind: Mutator
metadata: {name: words}
spec: {javascript: "return words.of(event)", assets: [scripts]}
---
kind: Mutator
metadata: {name: shorten}
spec: {command: shorten, assets: [programs]}
---
kind: Pipeline
metadata: {name: alerts}
spec:
  workflows:
  - {name: words, filters: [is_incident, often], mutator: words, handler: words}
  - {name: short, filters: [is_incident], mutator: shorten, handler: short}
---
kind: Check
metadata: {name: flag}
spec: {targets: {nodes: [web01]}, interval: 1s, command: "false", pipelines: [alerts]}
`)
	s.NewAgent("web01").Start()
	for file, want := range map[string]string{"words": "web01 6\n", "short": "shortened\n"} {
		harness.Until(t, time.Minute, file, func() (string, bool) {
			out, _ := os.ReadFile(filepath.Join(dir, file))
			return string(out), strings.Contains(string(out), want)
		})
	}
	out, err := os.ReadFile(filepath.Join(dir, "words"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Fields(strings.ReplaceAll(string(out), "web01 ", "")) {
		if line != "3" && line != "6" && line != "9" && line != "12" {
			t.Errorf("the filter passed occurrence %s", line)
		}
	}
}
