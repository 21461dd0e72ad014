package intent_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/testenv"
)

// A node with constantly changing facts causes one database write per half minute. Other nodes do not wait for it, and
// the last report is stored.
func TestChangingReportsAreThrottled(t *testing.T) {
	w := newTestService(t)
	joined := func(name string) intent.NodeInfo {
		member, err := w.Register(t.Context(), "key of "+name, pki.JoinToken{}, pki.EnrolRequest{Name: name})
		testenv.NoError(t, err)
		info, _ := w.LookupNode(member.UID)
		return info
	}
	flapping, calm := joined("flapping"), joined("calm")
	written := func(name string) int64 {
		r, err := w.Get(t.Context(), intent.Key{Kind: "Node", Namespace: "default", Name: name})
		testenv.NoError(t, err)
		return r.Status.Revision
	}
	facts := func(name string) map[string]string {
		r, err := w.Get(t.Context(), intent.Key{Kind: "Node", Namespace: "default", Name: name})
		testenv.NoError(t, err)
		return r.Spec.(*model.NodeSpec).Facts
	}
	writes, last := 0, written("flapping")
	for second := range 300 {
		w.now = w.now.Add(time.Second)
		w.RecordReport(flapping, intent.AgentReport{Facts: map[string]string{"addresses": fmt.Sprint(second)}})
		if second == 200 {
			w.RecordReport(calm, intent.AgentReport{Facts: map[string]string{"kernel": "6.12"}})
		}
		testenv.NoError(t, w.WriteReportsNow(t.Context()))
		if second == 200 && facts("calm")["kernel"] != "6.12" {
			t.Error("a node waits for another one's pace")
		}
		if now := written("flapping"); now != last {
			writes, last = writes+1, now
		}
	}
	if writes < 4+8 || writes > 4+10 {
		t.Errorf("300 changes in 300 s: %d writes", writes)
	}
	w.now = w.now.Add(30 * time.Second)
	testenv.NoError(t, w.WriteReportsNow(t.Context()))
	if got := facts("flapping")["addresses"]; got != "299" {
		t.Errorf("in the end: %s", got)
	}
	if waiting, _, _ := w.PendingReports(); waiting != 0 {
		t.Errorf("%d nodes wait", waiting)
	}
}

// The server writes changes of large agent reports less often than changes of small reports. Facts of 32 KiB that
// change each second are written once in five minutes.
func TestLargeChangingReportsAreWrittenRarely(t *testing.T) {
	w := newTestService(t)
	member, err := w.Register(t.Context(), "key", pki.JoinToken{}, pki.EnrolRequest{Name: "large"})
	testenv.NoError(t, err)
	info, _ := w.LookupNode(member.UID)
	written := map[int64]bool{}
	for second := range 300 {
		w.now = w.now.Add(time.Second)
		w.RecordReport(info, intent.AgentReport{Facts: map[string]string{"text": strings.Repeat(fmt.Sprintf("%04d", second), 7500)}})
		testenv.NoError(t, w.WriteReportsNow(t.Context()))
		r, err := w.Get(t.Context(), intent.Key{Kind: "Node", Namespace: "default", Name: "large"})
		testenv.NoError(t, err)
		written[r.Status.Revision] = true
	}
	if len(written) != 1 {
		t.Errorf("300 changes of 30 kB in 300 s: %d writes", len(written))
	}
}

// Facts, labels and groups of an agent are stored within limits, also after a rename of the node. Facts, labels or
// groups beyond their bound are rejected, the rest of the report is stored.
func TestReportIsBoundedAndStored(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	member, err := w.Register(ctx, "key", pki.JoinToken{Groups: []string{"web"}}, pki.EnrolRequest{Name: "web01", Groups: []string{"web", "canary", "web"}})
	testenv.NoError(t, err)
	node := func() *model.NodeSpec {
		r, err := w.Get(ctx, intent.Key{Kind: "Node", Namespace: "default", Name: "web01"})
		testenv.NoError(t, err)
		return r.Spec.(*model.NodeSpec)
	}
	if n := node(); fmt.Sprint(n.AssignedGroups(), n.JoinableGroups(), n.AgentGroups) != "[web] [web] [canary web]" {
		t.Errorf("after it joined: %v %v %v", n.AssignedGroups(), n.JoinableGroups(), n.AgentGroups)
	}
	info, _ := w.LookupNode(member.UID)
	for _, c := range []struct{ groups, limit, want string }{
		{"db", "", "[db]"}, {"UPPER", "groups", "[db]"}, {"other/db", "groups", "[db]"}, {"shared/db", "", "[shared/db]"}, {"", "", "[]"},
	} {
		said := intent.AgentReport{Facts: map[string]string{"of": c.groups}}
		if c.groups != "" {
			said.Groups = []string{c.groups}
		}
		w.now = w.now.Add(time.Minute)
		if limit, reason := w.RecordReport(info, said); limit != c.limit || (limit != "") != (reason != "") {
			t.Errorf("%q: %s: %s", c.groups, limit, reason)
		}
		testenv.NoError(t, w.WriteReportsNow(ctx))
		if n := node(); fmt.Sprint(n.AgentGroups) != c.want || n.Facts["of"] != c.groups || fmt.Sprint(n.AssignedGroups()) != "[web]" {
			t.Errorf("%q: %v, facts %v, groups %v", c.groups, n.AgentGroups, n.Facts, n.AssignedGroups())
		}
	}
	// An operator's apply does not change the report.
	r := model.Resource{Kind: "Node", Metadata: model.Metadata{Name: "web01"}, Spec: &model.NodeSpec{AgentGroups: []string{"root"}}}
	w.apply(t, r)
	if n := node(); len(n.AgentGroups) != 0 || n.Facts == nil {
		t.Errorf("applied: %v %v", n.AgentGroups, n.Facts)
	}
}

// TestReportedReceiversAreStored reports the keepalive handlers of an agent, and expects the handlers in the database.
// An apply of the node must not change them. A report without receivers leaves them.
func TestReportedReceiversAreStored(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	member, err := w.Register(ctx, "key", pki.JoinToken{}, pki.EnrolRequest{Name: "web01"})
	testenv.NoError(t, err)
	says := func(h *model.KeepaliveReceivers) (kept *model.KeepaliveReceivers, revision int64) {
		t.Helper()
		info, _ := w.LookupNode(member.UID)
		w.RecordReport(info, intent.AgentReport{KeepaliveReceivers: h})
		testenv.NoError(t, w.WriteReportsNow(ctx))
		r, err := w.Get(ctx, intent.Key{Kind: "Node", Namespace: "default", Name: "web01"})
		testenv.NoError(t, err)
		return r.Spec.(*model.NodeSpec).AgentReceivers, r.Status.Revision
	}
	first, at := says(&model.KeepaliveReceivers{Handlers: []string{"slack"}, Pipelines: []string{"alerts"}})
	if first == nil || first.Handlers[0] != "slack" || first.Pipelines[0] != "alerts" {
		t.Fatalf("%+v", first)
	}
	if again, now := says(&model.KeepaliveReceivers{Handlers: []string{"slack"}, Pipelines: []string{"alerts"}}); now != at || !again.Equal(first) {
		t.Errorf("the same is written again: %d, %d", at, now)
	}
	if kept, now := says(nil); now != at || !kept.Equal(first) {
		t.Errorf("who does not say: %+v", kept)
	}
	if _, err := w.Apply(ctx, intent.Actor{User: "ada"}, []model.Resource{{APIVersion: model.APIVersion, Kind: "Node", Metadata: model.Metadata{Name: "web01", Namespace: "default"},
		Spec: &model.NodeSpec{Groups: []string{"web"}, AgentReceivers: &model.KeepaliveReceivers{Handlers: []string{"mine"}}}}}, intent.ApplyOptions{Yes: true}); err != nil {
		t.Fatal(err)
	}
	if kept, _ := says(nil); !kept.Equal(first) {
		t.Errorf("after an apply: %+v", kept)
	}
	if kept, _ := says(&model.KeepaliveReceivers{}); kept != nil {
		t.Errorf("nobody any more: %+v", kept)
	}
}
