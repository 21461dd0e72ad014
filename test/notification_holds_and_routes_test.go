//go:build linux

package test

import (
	"encoding/json"
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

// notificationFile is a handler that writes each notification as a line to a file.
type notificationFile struct {
	t    *testing.T
	path string
}

// newNotificationFile returns a handler that appends to a new file.
func newNotificationFile(t *testing.T) *notificationFile {
	t.Helper()
	return &notificationFile{t, filepath.Join(t.TempDir(), "told")}
}

// handlerYAML returns the YAML of a new handler that appends each notification to the file.
func (n *notificationFile) handlerYAML(name string) string {
	return fmt.Sprintf("kind: Handler\nmetadata: {name: %s}\nspec: {command: 'cat >> %s'}\n---\n", name, n.path)
}

// kinds returns the kinds of notifications about a check, such as opened. They are those in the file so far.
func (n *notificationFile) kinds(check string) (kinds []string) {
	n.t.Helper()
	data, err := os.ReadFile(n.path)
	require(n.t, err == nil || os.IsNotExist(err), "%v", err)
	for line := range strings.Lines(string(data)) {
		var m struct{ Kind, Check string }
		if err := json.Unmarshal([]byte(line), &m); err == nil && m.Check == check { // an incomplete line is still being written
			kinds = append(kinds, m.Kind)
		}
	}
	return kinds
}

// awaitKinds waits until the notifications about a check have exactly the given kinds, in order.
func (n *notificationFile) awaitKinds(check string, want ...string) {
	n.t.Helper()
	awaitEqual(n.t, "messages about "+check, strings.Join(want, ", "), func() string { return strings.Join(n.kinds(check), ", ") })
}

// TestSilenceDelaysNotifications silences a failing check, and expects no notification during the silence. The
// check runs and shows its problem. A problem that is open at the silence's end is notified then. A silence
// until resolution ends with its problem. The command line shows all of it in advance.
func TestSilenceDelaysNotifications(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	book := newNotificationFile(t)
	s.Apply(book.handlerYAML("pager") + "kind: Route\nmetadata: {name: default}\nspec:\n  groupWait: 0s\n  groupBy: [node, check]\n  steps: [{to: [pager], repeat: 4h}, {to: [pager], after: 30m}]\n")
	s.StartAgent("web01")
	check := s.NewCountingCheck("disk", "web01")
	check.AwaitRuns(1)

	s.Try("route", "test", "web01/disk").Expect(0, "no other route matches", "default/pager, again every 4h", "+30m")
	for words, want := range map[string]string{
		"web01/disk --for 2h":                    "-m TEXT",
		"web01/disk -m why":                      "--until-resolved",
		"-m why --for 2h":                        "--check, --group",
		"nobody/disk --for 2h -m why --dry-run":  "muster get nodes",
		"web01/disk --for 2h --until 18:00 -m x": "--for and --until",
	} {
		s.Try(append([]string{"silence"}, strings.Fields(words)...)...).Expect(harness.AnyCode, want)
	}
	out := s.CLI("silence", "web01/disk", "--for", "2h", "-m", "a new disk", "--name", "work")
	expectTexts(t, out, "silence work silences disk on 1 node, until", "muster silence end work")
	s.AwaitOutput("route test web01/disk", "! silenced by default/work (admin: a new disk), until")
	check.SetExitCode(2)
	s.AwaitOutput("get problems --open -o wide", "SILENCED CRITICAL", "silenced by default/work (admin: a new disk)")
	for _, words := range []string{"get events --problem -o wide", "describe event web01/disk", "why web01/disk", "get problems --open -o json"} {
		s.Try(strings.Fields(words)...).Expect(0, "a new disk", "admin")
	}
	s.Try("silence", "list").Expect(0, "disk on web01", "HOLDS", "admin  1 ")
	got := book.kinds("disk")
	assert(t, len(got) == 0, "notified of %q during the silence", got)
	s.Try("silence", "end", "work", "-m", "it is in").Expect(0, "it held 1 problem")
	book.awaitKinds("disk", "opened")

	s.Try("silence", "web01/disk", "--until-resolved", "-m", "known", "--name", "known").Expect(0, "until the first of its problems closes; open now: 1 problem")
	check.SetExitCode(0)
	book.awaitKinds("disk", "opened", "closed") // notified handlers are notified of the end
	awaitEqual(t, "the silence still exists", false, func() bool { return s.Try("get", "silence", "known").Code == 0 })
	s.Try("audit", "silence/known").Expect(0, "the silenced problem has closed", "known")
}

// TestWhyExplainsGroupWait runs muster why on a new problem, and expects groupWait as reason for the delay. The
// problem is new and waits for others of its group; no earlier time is named.
func TestWhyExplainsGroupWait(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	book := newNotificationFile(t)
	s.Apply(book.handlerYAML("pager") + "kind: Route\nmetadata: {name: default}\nspec: {groupWait: 10m, steps: [{to: [pager]}]}\n")
	s.StartAgent("web01")
	check := s.NewCountingCheck("disk", "web01")
	check.AwaitRuns(1)
	s.CLI("silence", "web01/disk", "--for", "2h", "-m", "a new disk", "--name", "work")
	check.SetExitCode(2)
	s.AwaitOutput("why web01/disk", "! route default will notify pager at the end of the hold, if the problem is open then: silenced by default/work (admin: a new disk)")
	s.CLI("silence", "end", "work", "-m", "done")
	s.AwaitOutput("why web01/disk", "! route default will notify pager: waits (groupWait 10m) until")
}

// Messages beyond the rate limit of a route wait, and are sent later as one summary.
func TestRouteRateLimitDelaysMessages(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	book := newNotificationFile(t)
	route := func(per string) string {
		return "kind: Route\nmetadata: {name: default}\nspec:\n  groupWait: 0s\n  groupBy: [node, check]\n  rate: {messages: 1, per: " + per + "}\n  steps: [{to: [pager]}]\n"
	}
	s.Apply(book.handlerYAML("pager") + route("6h"))
	s.StartAgent("web01")
	first, second, third := s.NewCountingCheck("a", "web01"), s.NewCountingCheck("b", "web01"), s.NewCountingCheck("c", "web01")
	first.AwaitRuns(1)
	first.SetExitCode(2)
	book.awaitKinds("a", "opened")
	second.SetExitCode(2)
	third.SetExitCode(1)
	for _, name := range []string{"b", "c"} {
		s.AwaitOutput("why web01/"+name, "over the rate of route default/default (more than 1 message in 6h)")
	}
	s.Kill()
	s.Start()
	got := append(book.kinds("b"), book.kinds("c")...)
	assert(t, len(got) == 0, "notified of %q above the rate", got)
	first.SetExitCode(0)
	book.awaitKinds("a", "opened", "closed")
	s.Apply("kind: Route\nmetadata: {name: default}\nspec:\n  groupWait: 0s\n  groupBy: [node, check]\n  steps: [{to: [pager]}]\n") // the route has no rate any more
	book.awaitKinds("b", "summary")
}

// TestSilenceListsCoveredNodes silences many nodes, and expects ten node names and a count in the answer.
func TestSilenceListsCoveredNodes(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	var nodes strings.Builder
	for i := range 64 {
		fmt.Fprintf(&nodes, "---\nkind: Node\nmetadata: {name: rack%02d, labels: {row: r%d}}\nspec: {proxy: true}\n", i, i/32)
	}
	s.Apply(nodes.String())
	first := "rack00, rack01, rack02, rack03, rack04, rack05, rack06, rack07, rack08, rack09"
	silence := func(code int, words string, want ...string) {
		t.Helper()
		r := s.Try(append([]string{"silence", "--for", "2h", "-m", "moving"}, strings.Fields(words)...)...)
		said := strings.Join(strings.Fields(r.Out+r.Errors), " ")
		for _, text := range want {
			assert(t, (r.Code != 0) == (code != 0) && strings.Contains(said, text),
				"silence %s: %d %s, want %q", words, r.Code, r.Out+r.Errors, text)
		}
	}
	silence(1, "--all", "the silence would cover 64 nodes ("+first+" and 54 more); more than 50 need --yes", "--dry-run")
	silence(0, "--all --dry-run", "on 64 nodes", first+" and 54 more")
	silence(0, "--all --yes --name everything", "on 64 nodes", first+" and 54 more", "muster silence end everything")
	silence(0, "-l row=r1", "on 32 nodes", "rack32, rack33, rack34, rack35, rack36, rack37, rack38, rack39, rack40, rack41 and 22 more")
	silence(0, "rack63 rack07 rack08", "on 3 nodes", "rack07, rack08, rack63 ")
	s.Try("silence", "rack07", "--for", "2h", "-m", "alone", "-o", "json").Expect(0, `"first": [`, `"rack07"`)
}

// After kills of the server, no step of a route is repeated and none is lost.
func TestKillRepeatsNoEscalationStep(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	pager, lead := newNotificationFile(t), newNotificationFile(t)
	s.Apply(pager.handlerYAML("pager") + lead.handlerYAML("lead") +
		"kind: Route\nmetadata: {name: default}\nspec:\n  groupWait: 0s\n  groupBy: [node, check]\n  steps: [{to: [pager]}, {to: [lead], after: 15s}]\n")
	s.StartAgent("web01")
	check := s.NewCountingCheck("disk", "web01")
	check.AwaitRuns(1)
	check.SetExitCode(2)
	pager.awaitKinds("disk", "opened")
	opened := time.Now()
	// A kill before the record of a delivery repeats the delivery (TestDeliveryIsRepeatedAfterKillWithItsKey).
	s.AwaitOutput("describe event web01/disk", "pager (opened): delivered")
	s.Kill()
	s.Start()
	early := lead.kinds("disk")
	assert(t, len(early) == 0 || time.Since(opened) >= 14*time.Second, "the lead was notified of %q after %v", early, time.Since(opened))
	s.Kill()
	sleep(t.Context(), time.Until(opened.Add(16*time.Second)))
	s.Start()
	lead.awaitKinds("disk", "opened")
	pager.awaitKinds("disk", "opened")
	check.SetExitCode(0)
	lead.awaitKinds("disk", "opened", "closed")
	pager.awaitKinds("disk", "opened", "closed")
}

// TestFlappingCheckIsOneProblem fails a check at every second run, and expects one flapping problem with one
// notification.
func TestFlappingCheckIsOneProblem(t *testing.T) {
	skipIfShort(t, "a minute")
	t.Parallel()
	s := harness.StartServer(t)
	book := newNotificationFile(t)
	at := filepath.Join(t.TempDir(), "steady")
	s.Apply(book.handlerYAML("pager") + "kind: Route\nmetadata: {name: default}\nspec:\n  groupWait: 0s\n  groupBy: [node, check]\n  steps: [{to: [pager]}]\n" +
		fmt.Sprintf("---\nkind: Check\nmetadata: {name: link}\nspec:\n  targets: {nodes: [web01]}\n  interval: 1s\n  alert: {flapping: {start: 50, end: 25}}\n"+
			"  command: 'test -e %[1]s && exit 0; if test -e %[1]s.up; then rm %[1]s.up; echo down; exit 2; fi; touch %[1]s.up; echo up'\n", at))
	s.StartAgent("web01")
	awaitEvent(t, s.API, "web01", "link", "it flaps", func(e v1.Event) bool { return e.State == "flapping" })
	before := len(book.kinds("link"))
	ran := getEvent(t, s.API, "web01", "link").Results
	awaitEvent(t, s.API, "web01", "link", "ten more results", func(e v1.Event) bool { return e.Results >= ran+10 })
	if e := getEvent(t, s.API, "web01", "link"); e.State != "flapping" || e.Problem == nil {
		t.Errorf("%+v", e)
	}
	more := book.kinds("link")[before:]
	assert(t, len(more) <= 1, "messages while the check flapped: %q", more)
	s.Try("describe", "event", "web01/link").Expect(0, "flap")
	writeFile(t, at, "")
	awaitEvent(t, s.API, "web01", "link", "it is steady again", func(e v1.Event) bool { return e.State != "flapping" && e.Problem == nil })
	harness.Until(t, time.Minute, "the end of the problem is delivered", func() (string, bool) {
		told := book.kinds("link")
		return fmt.Sprint(told), len(told) > 0 && told[len(told)-1] == "closed"
	})
}

// TestShadowModeNotifiesNobody runs a namespace in shadow mode, and expects no sent notification. Notifications are
// listed and counted.
func TestShadowModeNotifiesNobody(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	book := newNotificationFile(t)
	s.Apply("kind: Namespace\nmetadata: {name: default}\nspec: {notifications: shadow}\n---\n" + book.handlerYAML("pager") +
		"kind: Route\nmetadata: {name: default}\nspec:\n  groupWait: 0s\n  groupBy: [node, check]\n  steps: [{to: [pager], repeat: 4h}]\n")
	s.StartAgent("web01")
	check := s.NewCountingCheck("disk", "web01")
	check.AwaitRuns(1)
	check.SetExitCode(2)
	shadow := func(words string, want ...string) {
		t.Helper()
		harness.Until(t, time.Minute, words, func() (out string, ok bool) {
			out = s.CLI(strings.Fields(words)...)
			for _, text := range want {
				if !strings.Contains(out, text) {
					return out, false
				}
			}
			return out, true
		})
	}
	shadow("report shadow --each", "opened", "web01", "CRITICAL: disk on web01")
	check.SetExitCode(0)
	shadow("report shadow --since 1h -o csv", ",default/pager,default/default,opened,default,web01,disk,CRITICAL,", ",default/pager,default/default,closed,default,web01,disk,OK,")
	shadow("report shadow", "pager    default  disk   1       -      -         1", "1 message would")
	shadow("report noise --since 100d", "1 page ", "1 in shadow mode", "disk   1      ", "1/1", "! history covers 90d")
	got := book.kinds("disk")
	assert(t, len(got) == 0, "notified of %q in shadow mode", got)
}

// TestBulkRequestAcknowledgesMatchingEvents sends one request for a node, and expects all events of the node as
// acknowledged. Reports still show the events of a node that was deleted since.
func TestBulkRequestAcknowledgesMatchingEvents(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.StartAgent("web01")
	s.Apply("kind: Check\nmetadata: {name: disk}\nspec: {targets: {nodes: [web01]}, interval: 1s, command: 'echo full; exit 2'}\n---\nkind: Check\nmetadata: {name: load}\nspec: {targets: {nodes: [web01]}, interval: 1s, command: 'echo high; exit 1'}")
	s.AwaitOutput("get problems --open", "disk", "load")
	s.Try("event", "ack", "--node", "web01", "--status", "critical,warning", "-m", "the switch").Expect(0, "2 events match:\n  CRITICAL web01/disk\n  WARNING  web01/load\n2 events acknowledged")
	s.Try("get", "events", "--where", "event.acknowledged", "-o", "wide").Expect(0, "disk", "load")
	s.Try("audit", "run").Expect(0, "ran a bulk acknowledge: 2 events picked (namespace default, node web01, status critical,warning): the switch", "started in revision ", ": 2 of 2 done")
	before := time.Now().UTC().Format(time.RFC3339Nano)
	s.CLI("delete", "node", "web01", "--yes")
	s.AwaitOutput("get events --at "+before+" "+"--check disk", "web01 (gone)  disk", "full")
	s.Try("report", "availability", "web01/disk", "--since", "1h").Expect(0, "web01 (gone)  disk   0.000 %")
}

// TestNotificationContainsHooksAndThresholds expects event and notification of a failed check to contain threshold and
// hook output. The threshold is exceeded; the hook is a hook of the check.
func TestNotificationContainsHooksAndThresholds(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.StartAgent("web01")
	told := filepath.Join(t.TempDir(), "told")
	s.Apply(`{kind: Handler, metadata: {name: notebook}, spec: {command: cat >> ` + told + `; echo >> ` + told + `}}
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
	awaitFile(t, told, 1, `"hooks":[{"name":"locks","status":0,"output":"the lock is held by 4711"`)
	s.Try("describe", "event", "web01/jobs").Expect(0, "CRITICAL: jobs.waiting{queue=mail,team=print} is 42, more than 10", "hook locks (took ", "  the lock is held by 4711", "jobs.waiting{queue=print,team=print} = 1")
	yaml := s.CLI("get", "event", "web01/jobs", "-o", "yaml")
	expectTexts(t, yaml, "name: jobs.waiting", "queue: mail", "name: locks")
}

// TestNewRouteNotifiesOpenProblems adds a notification route while problems are open, and expects one message
// about all problems.
func TestNewRouteNotifiesOpenProblems(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	book := newNotificationFile(t)
	s.Apply(book.handlerYAML("book"))
	s.StartAgent("web01")
	for _, name := range []string{"disk", "load"} {
		check := s.NewCountingCheck(name, "web01")
		check.SetExitCode(2)
		s.AwaitOutput("why web01/"+name, "is open since")
	}
	s.AwaitOutput("why web01/disk", "! not notified, because the check names no route (alert.route)", "to notify now: apply a Route called default")
	apply := func(name, more string, flags ...string) string {
		path := filepath.Join(t.TempDir(), name)
		testenv.NoError(t, os.WriteFile(path, []byte("kind: Route\nmetadata: {name: "+name+"}\nspec: {groupWait: 3s, steps: [{to: [book]}]"+more+"}\n"), 0o600))
		return s.CLI(append([]string{"apply", "-f", path}, flags...)...)
	}
	out := apply("default", "", "--dry-run")
	expectTexts(t, out, "2 open problems: route default would notify book, in one message; to notify nobody of them: --only-new", "dry run: nothing was changed")
	out = apply("default", "", "--only-new", "--dry-run")
	expectTexts(t, out, "2 open problems: route default would notify book of none of them now")
	out = apply("default", "", "--only-new")
	expectTexts(t, out, "2 open problems: route default notifies book of none of them now")
	s.AwaitOutput("why web01/disk", "! route default: not notified, because it was open before route default/default took it (admin: applied with --only-new); to notify now: muster event notify web01/disk")
	out = apply("web", ", match: {targets: {nodes: [web01]}}")
	expectTexts(t, out, "2 open problems: route web notifies book at ", ", in one message")
	s.AwaitOutput("why web01/disk", "! route web will notify book: waits (groupWait 3s) until")
	awaitFile(t, book.path, 1, `"kind":"summary"`)
	expectTexts(t, s.CLI("event", "notify", "web01/disk", "-m", "now"), "1 open problem: route default notifies book at ")
	book.awaitKinds("disk", "summary", "opened")
	s.AwaitOutput("why web01/disk", "route web: book is notified, and no later step or repetition is due")
	s.CLI("delete", "route", "web", "--yes")
	s.AwaitOutput("why web01/disk", "route web is deleted: book, notified through it, will be notified of the closing")
	const again = "2 open problems: route office %s book of none of them now: already notified through book"
	expectTexts(t, apply("office", ", match: {targets: {nodes: [web01]}}", "--dry-run"), fmt.Sprintf(again, "would notify"))
	expectTexts(t, apply("office", ", match: {targets: {nodes: [web01]}}"), fmt.Sprintf(again, "notifies"))
	s.AwaitOutput("why web01/disk", "route office: book is notified already through route web, and no later step or repetition is due")
	expectTexts(t, apply("office", ", match: {targets: {nodes: [web01]}, checks: [disk, load]}"), fmt.Sprintf(again, "notifies"))
	book.awaitKinds("disk", "summary", "opened")
}

// TestPagingFromAlertToRecovery creates a paging handler, and follows an alert through notification,
// acknowledgement and recovery. A handler that does not work is in no route, and status warns of one that
// fails.
func TestPagingFromAlertToRecovery(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	book := newNotificationFile(t)
	s.StartAgent("web01")
	s.Try("handler", "create", "pager", "--command", "exit 3").Expect(9, "handler pager was created, but its test failed, so it was added to no route")
	s.Try("handler", "create", "pager", "--command", "cat >> "+book.path).Expect(0, "handler/pager updated", "accepted a test message", "route/default created")
	check := s.NewCountingCheck("disk", "web01")
	check.SetExitCode(2)
	book.awaitKinds("disk", "opened")
	s.AwaitOutput("status", "Not well: 1 problem (1 critical)", "web01/disk")
	s.CLI("event", "ack", "web01/disk", "-m", "on it")
	book.awaitKinds("disk", "opened", "acknowledged")
	s.AwaitOutput("status", "All open problems are handled: 1 acknowledged.")
	check.SetExitCode(0)
	book.awaitKinds("disk", "opened", "acknowledged", "closed")
	var list v1.ProblemList
	require(t, json.Unmarshal([]byte(s.CLI("get", "problems", "-o", "json")), &list) == nil && len(list.Items) > 0, "no problem")
	s.AwaitOutput("describe problem "+list.Items[0].ID, "opened CRITICAL", "notified pager by route default: exit status 0", "acknowledged by admin: on it", "notified pager of the recovery by route default", "closed after")
}
