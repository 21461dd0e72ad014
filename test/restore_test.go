//go:build linux

package test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/test/harness"
)

// A server goes back to an older copy of its data folder, while agents have gone on.
// Started as it is, it says what to type; once that is typed, agents take its
// assignments, what they hold is applied once, what the abandoned life gave (page
// tokens, ETags, ids) is refused or never given again, and nobody is reported.
func TestRestoreFromBackup(t *testing.T) {
	if testing.Short() {
		t.Skip("an agent waits long between attempts while its server is away")
	}
	t.Parallel()
	s := harness.StartServer(t)
	api := s.Client()
	check := kind.Check().KindInfo
	before := s.Counter("before", "web01")
	agent := s.NewAgent("web01")
	agent.Start()
	before.AwaitRuns(2)
	awaitLastResult(t, api, "web01", "before", before)
	kept := before.Runs() // what the copy knows

	backup := filepath.Join(t.TempDir(), "backup")
	s.Pause() // what a snapshot of the disk would hold
	if out, err := exec.Command("cp", "-a", s.Data, backup).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.Resume()

	before.Unblock()
	since := s.Counter("since", "web01") // a check that the copy does not know
	before.AwaitRuns(3)
	awaitAllResults(t, api, "web01", "since", since)
	awaitLastResult(t, api, "web01", "before", before)
	acknowledged := before.Runs()
	_, tag, err := api.Resources.Get(t.Context(), check, model.DefaultNamespaceName, "before")
	if err != nil {
		t.Fatal(err)
	}
	events, err := api.Events.List(t.Context(), v1.EventFilter{Limit: 1})
	if err != nil || events.Next == "" {
		t.Fatalf("%+v %v", events, err)
	}
	checks, err := api.Resources.List(t.Context(), check, "", v1.ResourceFilter{}, false, 1, "")
	if err != nil || checks.Next == "" {
		t.Fatalf("%+v %v", checks, err)
	}
	changed, err := api.Resources.Changes(t.Context(), "", "", "", 1, "")
	if err != nil || changed.Next == "" {
		t.Fatalf("%+v %v", changed, err)
	}

	s.Kill()
	before.Unblock()
	before.AwaitRuns(4)
	before.Block()
	held := before.Runs() - acknowledged // and not acknowledged by anybody
	if err := os.RemoveAll(s.Data); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(backup, s.Data); err != nil {
		t.Fatal(err)
	}

	// As it is: nothing that agents hold is lost, and the command is named.
	s.Start()
	harness.Until(t, time.Minute, "what the agent holds is applied", func() (string, bool) {
		e := eventOf(t, api, "web01", "before")
		return fmt.Sprintf("%d results, %q", e.Results, e.Output), e.Results >= kept+held
	})
	if e := eventOf(t, api, "web01", "before"); e.Results != kept+held || e.Output != fmt.Sprint("run ", before.Runs()) {
		t.Errorf("%d runs were kept, %d held; %d results are applied, the last: %q", kept, held, e.Results, e.Output)
	}
	told := ""
	harness.Until(t, 30*time.Second, "the server says that its data is an older copy", func() (string, bool) {
		e := eventOf(t, api, model.ServerNodeName, model.BuiltinCheckName(model.JournalCheck))
		told = e.Output
		return fmt.Sprintf("%+v", e), e.Status == model.Critical
	})
	if status := s.CLI("status"); !strings.Contains(status, "web01) were acknowledged more than this server holds") {
		t.Errorf("status says:\n%s", status)
	}
	command := regexp.MustCompile(`muster (doctor restored .*)$`).FindStringSubmatch(told)
	if command == nil {
		t.Fatalf("no command in %q", told)
	}
	s.Stop()
	if said := s.CLI(strings.Fields(command[1])...); !strings.Contains(said, "begins a life of its own") {
		t.Errorf("restored says:\n%s", said)
	}

	// A life of its own.
	s.Start()
	before.Unblock()
	before.AwaitRuns(2)
	harness.Until(t, 30*time.Second, "the agent takes the copy's assignment", func() (string, bool) {
		return agent.Log(), strings.Contains(agent.Log(), `msg="assignment in force" checks=1 `)
	})
	after := s.Counter("after", "web01")
	after.AwaitRuns(1)
	awaitAllResults(t, api, "web01", "after", after)
	if runs := since.Runs(); runs != 0 {
		since.Block()
		if now := since.Runs(); now > runs+1 {
			t.Errorf("the check that is gone still runs: %d times, then %d", runs, now)
		}
	}
	before.Block()
	harness.Until(t, 30*time.Second, "every run since is applied", func() (string, bool) {
		e := eventOf(t, api, "web01", "before")
		want := kept + before.Runs() - acknowledged
		return fmt.Sprintf("%d results, want %d; %q", e.Results, want, e.Output), e.Results == want && e.Output == fmt.Sprint("run ", before.Runs())
	})
	for what, err := range map[string]error{
		"ETag": func() error {
			body, _, err := api.Resources.Get(t.Context(), check, model.DefaultNamespaceName, "before")
			if err != nil {
				return nil //nolint:nilerr // reported as missing
			}
			_, err = api.Resources.Put(t.Context(), check, model.DefaultNamespaceName, "before", body, tag, "", 0, false, true)
			return err
		}(),
		"token of events": func() error {
			_, err := api.Events.List(t.Context(), v1.EventFilter{Limit: 1, After: events.Next})
			return err
		}(),
		"token of checks": func() error {
			_, err := api.Resources.List(t.Context(), check, "", v1.ResourceFilter{}, false, 1, checks.Next)
			return err
		}(),
		"token of changes": func() error {
			_, err := api.Resources.Changes(t.Context(), "", "", "", 1, changed.Next)
			return err
		}(),
	} {
		want := "of another life of this server's data"
		if what == "ETag" {
			want = "was changed since: its ETag is" // it names the life: the same revision is another
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s of the abandoned life: %v", what, err)
		}
	}
	var made struct{ Status struct{ ID uint32 } }
	body, _, err := api.Resources.Get(t.Context(), check, model.DefaultNamespaceName, "after")
	if err != nil {
		t.Fatal(err)
	}
	unmarshal(t, body, &made)
	if made.Status.ID < intent.IDGap {
		t.Errorf("the new check has id %d, which the abandoned life may have given", made.Status.ID)
	}
	harness.Until(t, 30*time.Second, "the server has nothing more to say about that", func() (string, bool) {
		e := eventOf(t, api, model.ServerNodeName, model.BuiltinCheckName(model.JournalCheck))
		return e.Output, e.Status == model.OK
	})
	if got := statusChanges(t, api, "web01", model.KeepaliveCheckName); len(got) != 0 {
		t.Errorf("the living was reported: %+v", got)
	}
	for _, word := range []string{"panic", "BUG"} {
		if strings.Contains(s.Log()+agent.Log(), word) {
			t.Errorf("a log says %s", word)
		}
	}
	agent.Stop()
	s.Stop()
}

func unmarshal(t *testing.T, data []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}
