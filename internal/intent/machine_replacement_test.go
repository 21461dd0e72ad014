package intent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/testenv"
)

// join enrols a machine with a key, a name and a join token.
func (w *testService) join(t *testing.T, key, name string, token pki.JoinToken) (pki.Member, error) {
	t.Helper()
	return w.Register(t.Context(), key, token, pki.EnrolRequest{Name: name, Facts: map[string]string{"key": key}})
}

// TestRenameAndRetireWarnOfTheOwner renames and retires by hand a node that an owner declares, and expects a
// warning. The owner's next apply reverts the change.
func TestRenameAndRetireWarnOfTheOwner(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	node := model.Resource{Kind: "Node", Metadata: model.Metadata{Name: "web01"}, Spec: &model.NodeSpec{UID: uuid.NewString()}}
	testenv.Value(w.Apply(ctx, ada, []model.Resource{node}, intent.ApplyOptions{Owner: "team-a"}))(t)
	warned := func(done intent.ApplyResult, err error, parts ...string) {
		t.Helper()
		text := ""
		for _, o := range done.Outcomes {
			text += strings.Join(o.Warnings, " ")
		}
		for _, p := range parts {
			if err != nil || !strings.Contains(text, p) {
				t.Errorf("warns %q, %v, without %q", text, err, p)
			}
		}
	}
	done, err := w.Rename(ctx, ada, "default", "web01", "web02", intent.ApplyOptions{})
	warned(done, err, "team-a", "metadata.name", "web01")
	done, err = w.Retire(ctx, ada, []intent.Key{{Kind: "Node", Namespace: "default", Name: "web02"}}, intent.ApplyOptions{})
	warned(done, err, "team-a", "creates it again")
}

// A machine takes over a node by a join token for the node. A token that may replace machines also works if the node
// has no session.
func TestMachineReplacesAnotherByToken(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	first, err := w.join(t, "k1", "web01", pki.JoinToken{ID: "t"})
	testenv.NoError(t, err)
	before, _ := w.LookupNode(first.UID)
	bound, open := pki.JoinToken{ID: "b", Node: first.UID, By: "ada", Note: "new disk"}, pki.JoinToken{ID: "r", Replace: true, By: "ada"}
	for _, c := range []struct {
		key, name, want string
		token           pki.JoinToken
		connected       bool
		same            bool // the machine becomes the first node again
	}{
		{"k2", "anything", "web01", bound, true, true},
		{"k3", "web01", "web01-2", open, true, false},
		{"k4", "web01", "web01", open, false, true},
		{"k5", "db01", "db01", open, false, false},
	} {
		w.connected = c.connected
		got, err := w.join(t, c.key, c.name, c.token)
		if err != nil || got.Name != c.want || (got.UID == first.UID) != c.same {
			t.Fatalf("%s: %+v, %v", c.key, got, err)
		}
	}
	for range 2 {
		if after, ok := w.LookupNode(first.UID); !ok || after.ID != before.ID || after.Key != "k4" {
			t.Fatalf("%+v", after)
		}
		old, ok := w.TombstoneByKey("k1")
		if !ok || old.Cause != intent.ReasonReplaced || !strings.Contains(old.Sentence(), "web01") || !strings.Contains(old.Sentence(), "by ada") || !strings.Contains(old.Sentence(), "new disk") {
			t.Fatalf("the machine before hears %+v %q", old, old.Sentence())
		}
		w.open(t)
	}
	if changes := strings.Join(w.changed, " "); changes != "web01:k1>k2 web01:k2>k4" {
		t.Errorf("sessions to end: %s", changes)
	}
	r, err := w.Get(ctx, intent.Key{Kind: "Node", Namespace: "default", Name: "web01"})
	if err != nil || r.Spec.(*model.NodeSpec).Facts["key"] != "k4" {
		t.Errorf("%+v, %v", r, err)
	}
	testenv.Value(w.Retire(ctx, ada, []intent.Key{{Kind: "Node", Namespace: "default", Name: "web01"}}, intent.ApplyOptions{}))(t)
	if _, err := w.join(t, "k6", "web01", bound); model.ClassOf(err) != model.Conflict {
		t.Errorf("a token for a node that is gone: %v", err)
	}
}

// TestConnectedMachineIsNotReplacedByName enrols a machine under an existing node's name, and expects a refusal. The
// machine gets the node only with a join token for this node, or if the old machine has been disconnected for long.
func TestConnectedMachineIsNotReplacedByName(t *testing.T) {
	w := newTestService(t)
	first, err := w.join(t, "k1", "web01", pki.JoinToken{ID: "t"})
	testenv.NoError(t, err)
	tokens := intent.JoinTokens{Store: w.Store()}
	testenv.NoError(t, tokens.Create(t.Context(), ada, pki.JoinToken{ID: "r", Replace: true, By: "ada", MaxUses: 1}))
	open, err := tokens.Find(t.Context(), "r")
	testenv.NoError(t, err)
	w.wait = 3 * time.Minute
	_, err = w.join(t, "k2", "web01", open)
	if model.ClassOf(err) != model.Conflict || !strings.Contains(err.Error(), "in 3m0s") || !strings.Contains(err.Error(), "muster node replace web01") {
		t.Errorf("away for a moment: %v", err)
	}
	w.wait, w.trusted = 0, "payment"
	_, err = w.join(t, "k2", "web01", open)
	if model.ClassOf(err) != model.Forbidden || !strings.Contains(err.Error(), "trusted group") || !strings.Contains(err.Error(), "muster node replace web01") {
		t.Errorf("of a trusted group: %v", err)
	}
	w.trusted = ""
	vault := model.Resource{Kind: "Group", Metadata: model.Metadata{Name: "vault"}, Spec: &model.GroupSpec{Trusted: true, Nodes: []string{"web01"}}}
	w.apply(t, vault)
	if _, err = w.join(t, "k2", "web01", open); model.ClassOf(err) != model.Forbidden {
		t.Errorf("listed by a trusted group: %v", err)
	}
	if open, err = tokens.Find(t.Context(), "r"); err != nil || open.Uses != 0 {
		t.Errorf("what was refused used the token: %+v, %v", open, err)
	}
	if info, _ := w.LookupNode(first.UID); info.Key != "k1" {
		t.Fatalf("%+v", info)
	}
	if got, err := w.join(t, "k2", "anything", pki.JoinToken{ID: "b", Node: first.UID}); err != nil || got.UID != first.UID {
		t.Fatalf("%+v, %v", got, err)
	}
	// The replaced machine gets the reason as long as its certificate can be renewed.
	w.now = w.now.Add((90 + 364) * 24 * time.Hour)
	if _, ok := w.TombstoneByKey("k1"); !ok {
		t.Error("the machine before is unknown already")
	}
	w.now = w.now.Add(2 * 24 * time.Hour)
	if err := w.EnforceRetentionNow(t.Context()); err != nil || len(w.ListTombstones()) != 0 {
		t.Errorf("%+v, %v", w.ListTombstones(), err)
	}
}

// TestMachineAcceptedByKeyGetsNoTrustedName accepts a machine by its key, and expects no name reserved for
// nodes of trusted groups. A trusted group lists a reserved name.
func TestMachineAcceptedByKeyGetsNoTrustedName(t *testing.T) {
	w := newTestService(t)
	db := model.Resource{Kind: "Node", Metadata: model.Metadata{Name: "db01"}, Spec: &model.NodeSpec{}}
	vault := model.Resource{Kind: "Group", Metadata: model.Metadata{Name: "vault"}, Spec: &model.GroupSpec{Trusted: true, Nodes: []string{"db01"}}}
	w.apply(t, db, vault)
	testenv.Value(w.Delete(t.Context(), ada, []intent.Key{nodeKey("db01")}, intent.ApplyOptions{}))(t)
	for _, c := range []struct {
		key   string
		named bool
		want  string
	}{{"k1", false, "db01-2"}, {"k2", true, "db01"}} {
		got, err := w.Accept(t.Context(), ada, c.key, pki.JoinToken{}, pki.EnrolRequest{Name: "db01"}, c.named)
		if err != nil || got.Name != c.want {
			t.Errorf("%s: %+v, %v", c.key, got, err)
		}
	}
}

// A machine with a retired or deleted node is refused, until an operator allows its return. Only a person can lift the
// refusal; an applied file cannot.
func TestRetiredMachineIsRefusedUntilForgiven(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	key := func(name string) intent.Key { return intent.Key{Kind: "Node", Namespace: "default", Name: name} }
	var members []pki.Member
	for _, name := range []string{"a", "b", "c"} {
		m, err := w.join(t, "k-"+name, name, pki.JoinToken{ID: "t"})
		testenv.NoError(t, err)
		members = append(members, m)
	}
	testenv.NoError(t, w.CreateNodes(ctx, ada, "default", []intent.BulkNode{{UID: uuid.New(), Name: "never-came"}}))
	w.affected = 60
	if _, err := w.Retire(ctx, ada, []intent.Key{key("a"), key("b")}, intent.ApplyOptions{}); model.ClassOf(err) != model.Guarded {
		t.Fatalf("without --yes: %v", err)
	}
	if _, err := w.Retire(ctx, ada, []intent.Key{key("a"), key("nobody")}, intent.ApplyOptions{Yes: true}); model.ClassOf(err) != model.NotFound {
		t.Fatalf("with a name that is not there: %v", err)
	}
	by := ada
	by.Message = "scrapped"
	done, err := w.Retire(ctx, by, []intent.Key{key("a"), key("b")}, intent.ApplyOptions{Yes: true})
	if err != nil || len(done.Outcomes) != 2 || done.Outcomes[0].Op != intent.OpRetired || done.Outcomes[1].Revision != done.Revision {
		t.Fatalf("%+v, %v", done, err)
	}
	testenv.Value(w.Delete(ctx, ada, []intent.Key{key("c"), key("never-came")}, intent.ApplyOptions{Yes: true}))(t)
	for range 2 {
		if _, ok := w.LookupNode(members[0].UID); ok {
			t.Fatal("a is there")
		}
		graves := w.ListTombstones()
		if len(graves) != 3 {
			t.Fatalf("%+v", graves)
		}
		a, ok := w.Tombstone(members[0].UID)
		if !ok || a.Cause != intent.ReasonRetired || !strings.Contains(a.Sentence(), "node a was retired by ada at ") || !strings.Contains(a.Sentence(), ": scrapped") || !strings.Contains(a.Hint(), "muster node token") {
			t.Fatalf("%+v: %s (%s)", a, a.Sentence(), a.Hint())
		}
		if c, ok := w.Tombstone(members[2].UID); !ok || c.Cause != intent.ReasonDeleted {
			t.Fatalf("%+v", c)
		}
		if w.RefuseKey("k-a") == nil {
			t.Error("its key may ask to join")
		}
		w.open(t)
	}
	again := model.Resource{Kind: "Node", Metadata: model.Metadata{Name: "c"}, Spec: &model.NodeSpec{UID: members[2].UID.String()}}
	if _, err := w.Apply(ctx, ada, []model.Resource{again}, intent.ApplyOptions{Yes: true}); model.ClassOf(err) != model.Conflict ||
		!strings.Contains(err.Error(), "muster node unblock "+members[2].UID.String()) || !strings.Contains(err.Error(), "omit spec.uid") {
		t.Fatalf("a file that was written before: %v", err)
	}
	testenv.NoError(t, w.DeleteTombstone(ctx, ada, members[2].UID.String()))
	testenv.Value(w.Apply(ctx, ada, []model.Resource{again}, intent.ApplyOptions{Yes: true}))(t)
	if c, ok := w.LookupNode(members[2].UID); !ok || c.Name != "c" {
		t.Fatalf("%+v", c)
	}
	testenv.NoError(t, w.DeleteTombstone(ctx, ada, members[0].UID.String()))
	if err := w.DeleteTombstone(ctx, ada, members[0].UID.String()); model.ClassOf(err) != model.NotFound {
		t.Fatalf("twice: %v", err)
	}
	if graves := w.ListTombstones(); len(graves) != 1 || graves[0].Name != "b" || w.RefuseKey("k-a") != nil {
		t.Fatalf("%+v", graves)
	}
	w.now = w.now.Add(365 * 24 * time.Hour)
	if err := w.EnforceRetentionNow(ctx); err != nil || len(w.ListTombstones()) != 1 {
		t.Fatalf("for good: %+v, %v", w.ListTombstones(), err)
	}
}

// TestReturningNodeKeepsItsUID restores a database from before a machine joined, and expects the machine to get
// its former uid. The machine gets a new id if another node or a trusted name forbids the former one.
func TestReturningNodeKeepsItsUID(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	returns := func(uid uuid.UUID, key, name string, named bool) (pki.Member, error) {
		return w.Accept(ctx, ada, key, pki.JoinToken{}, pki.EnrolRequest{Name: name, Returns: &pki.LostNode{UID: uid}}, named)
	}
	one, two, three, four := uuid.New(), uuid.New(), uuid.New(), uuid.New()
	if m, err := returns(four, "k5", "vault", false); err != nil || m.UID != four {
		t.Fatalf("%+v %v", m, err)
	}
	secrets := model.Resource{Kind: "Group", Metadata: model.Metadata{Name: "secrets"}, Spec: &model.GroupSpec{Trusted: true, Nodes: []string{"vault"}}}
	w.apply(t, secrets)
	testenv.Value(w.Delete(ctx, ada, []intent.Key{{Kind: "Node", Namespace: "default", Name: "vault"}}, intent.ApplyOptions{Yes: true}))(t)
	if m, err := returns(one, "k1", "web01", false); err != nil || m.UID != one || m.Name != "web01" || w.UnknownNode(one) {
		t.Fatalf("%+v %v", m, err)
	}
	if m, err := returns(one, "k1", "web01", false); err != nil || m.UID != one {
		t.Errorf("asked for twice: %+v %v", m, err)
	}
	if _, err := returns(one, "k2", "web01", false); model.ClassOf(err) != model.Conflict {
		t.Errorf("another machine with the id of a node: %v", err)
	}
	if m, err := returns(two, "k3", "web01", false); err != nil || m.UID != two || m.Name != "web01-2" {
		t.Errorf("its name is another's: %+v %v", m, err)
	}
	if _, err := returns(three, "k4", "vault", false); model.ClassOf(err) != model.Forbidden {
		t.Errorf("a trusted name: %v", err)
	}
	if m, err := returns(three, "k4", "vault", true); err != nil || m.UID != three || m.Name != "vault" {
		t.Errorf("a trusted name that a person has said: %+v %v", m, err)
	}
	testenv.Value(w.Retire(ctx, ada, []intent.Key{{Kind: "Node", Namespace: "default", Name: "web01"}}, intent.ApplyOptions{}))(t)
	if _, err := returns(one, "k1", "web01", true); model.ClassOf(err) != model.Conflict || w.UnknownNode(one) {
		t.Errorf("a node that was retired: %v", err)
	}
}

// TestTombstoneIsDeletedByJoinOrExpiry expects a machine's tombstone to survive restarts until a new join or
// its expiry. It is deleted when it expires or when the machine joins with a token.
func TestTombstoneIsDeletedByJoinOrExpiry(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	tombs := func() int {
		rows, err := w.Store().List(ctx, intent.ListQuery{Kind: "tombstone"})
		testenv.NoError(t, err)
		return len(rows)
	}
	for key, tomb := range map[string]intent.Tombstone{
		"k1": {Name: "web01", Cause: intent.ReasonDeclined, Reason: "not ours"},
		"k2": {Name: "web02", Cause: intent.ReasonForgotten, Until: w.now.Add(time.Hour)},
	} {
		testenv.NoError(t, w.BlockKey(ctx, ada, key, tomb))
	}
	w.open(t)
	got, ok := w.TombstoneByKey("k1")
	if !ok || got.By != "ada" || got.Key != "k1" {
		t.Fatalf("%+v, %v", got, ok)
	}
	err := w.RefuseKey("k1")
	if model.ClassOf(err) != model.Forbidden {
		t.Fatal(err)
	}
	for _, part := range []string{"web01", "was refused by ada at 1970-01-01T00:16:40Z: not ours", "muster node token"} {
		var said *model.Error
		if !errors.As(err, &said) || !strings.Contains(said.Message+said.Hint, part) {
			t.Errorf("%+v does not say %q", said, part)
		}
	}
	if w.RefuseKey("k2") == nil || w.RefuseKey("k3") != nil {
		t.Error("k2 is gone for an hour, k3 never was")
	}
	w.now = w.now.Add(time.Hour)
	if w.RefuseKey("k2") != nil {
		t.Error("k2 is free again")
	}
	if err := w.EnforceRetentionNow(ctx); err != nil || tombs() != 1 {
		t.Fatalf("%d tombstones are left, %v", tombs(), err)
	}
	testenv.Value(w.Register(ctx, "k1", pki.JoinToken{ID: "t"}, pki.EnrolRequest{Name: "web01"}))(t)
	if w.RefuseKey("k1") != nil || tombs() != 0 {
		t.Errorf("with a token it is a node: %v, %d tombstones", w.RefuseKey("k1"), tombs())
	}
}

// TestFirstMachineKeyOfANodeStays records two machine keys for one node, and expects the first key to stay. No later write
// changes the key.
func TestFirstMachineKeyOfANodeStays(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	uid := uuid.New()
	testenv.NoError(t, w.CreateNodes(ctx, ada, "default", []intent.BulkNode{{UID: uid, Name: "web01"}}))
	for _, key := range []string{"k1", "k2"} {
		if got, _ := w.RecordFirstKey(uid, key); got != "k1" {
			t.Fatalf("key on record is %q", got)
		}
	}
	node := model.Resource{Kind: "Node", Metadata: model.Metadata{Name: "web01", Labels: map[string]string{"env": "prod"}}, Spec: &model.NodeSpec{}}
	w.apply(t, node)
	if held, ok := w.LookupKey("k1"); !ok || held.UID != uid || held.Key != "k1" {
		t.Fatalf("after an apply the key is of %+v", held)
	}
	testenv.NoError(t, w.WriteReportsNow(ctx))
	w.open(t)
	if held, ok := w.LookupKey("k1"); !ok || held.UID != uid || held.Key != "k1" {
		t.Fatalf("after a restart the key is of %+v", held)
	}
	testenv.Value(w.Delete(ctx, ada, []intent.Key{{Kind: "Node", Namespace: "default", Name: "web01"}}, intent.ApplyOptions{}))(t)
	if held, ok := w.LookupKey("k1"); ok {
		t.Fatalf("after its end the key is of %+v", held)
	}
}

// TestNoTwoNodesShareAKey expects a different machine key for each node. This holds after the first sessions and after
// loading an old database.
func TestNoTwoNodesShareAKey(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	one, err := w.Register(ctx, "k1", pki.JoinToken{ID: "t"}, pki.EnrolRequest{Name: "web01"})
	testenv.NoError(t, err)
	two, three := uuid.New(), uuid.New()
	testenv.NoError(t, w.CreateNodes(ctx, ada, "default", []intent.BulkNode{{UID: two, Name: "a-newer"}, {UID: three, Name: "third"}}))
	if key, holder := w.RecordFirstKey(two, "k1"); key != "" || holder != "web01" {
		t.Errorf("the first session of another node with its key: %q, %q", key, holder)
	}
	row, err := w.Store().Get(ctx, intent.Key{Kind: "Node", Namespace: "default", Name: "a-newer"})
	testenv.NoError(t, err)
	row.Body = []byte(strings.Replace(string(row.Body), `"uid":`, `"key":"k1","uid":`, 1))
	testenv.Value(w.Store().Commit(ctx, ada, []intent.Write{{Key: row.Key, Body: row.Body, Expect: row.Revision}}))(t)
	for range 2 { // after the first load, and after a second one
		w.open(t)
		if held, ok := w.LookupKey("k1"); !ok || held.UID != one.UID {
			t.Fatalf("the key is of %+v", held)
		}
		if info, _ := w.LookupNode(two); info.Key != "" {
			t.Errorf("the newer one has it, too: %+v", info)
		}
		if key, holder := w.RecordFirstKey(two, "k1"); key != "" || holder != "web01" {
			t.Errorf("its session: %q, %q", key, holder)
		}
	}
	testenv.Value(w.Retire(ctx, ada, []intent.Key{{Kind: "Node", Namespace: "default", Name: "web01"}}, intent.ApplyOptions{}))(t)
	if key, holder := w.RecordFirstKey(two, "k1"); key != "k1" || holder != "" {
		t.Errorf("after the older one's end: %q, %q", key, holder)
	}
	if key, holder := w.RecordFirstKey(three, "k1"); key != "" || holder != "a-newer" {
		t.Errorf("a third: %q, %q", key, holder)
	}
}

// A renamed node keeps its id, and references to the node get the new name. All resources that name the node change in
// the same commit.
func TestRenameUpdatesAllReferences(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	uid := uuid.New()
	testenv.NoError(t, w.CreateNodes(ctx, ada, "default", []intent.BulkNode{{UID: uid, Name: "web01"}, {UID: uuid.New(), Name: "db01"}}))
	disk := check("disk")
	disk.Spec.(*model.CheckSpec).Targets = &model.Targets{Nodes: []string{"web01"}, Except: &model.Targets{Nodes: []string{"db01", "web01"}}}
	shared := group("both")
	shared.Metadata.Namespace, shared.Spec = "shared", &model.GroupSpec{Nodes: []string{"web01", "default/web01", "other/web01"}}
	listed, byName := group("listed"), group("named")
	listed.Spec = &model.GroupSpec{Nodes: []string{"db01", "web01", "web011"}}
	byName.Spec = &model.GroupSpec{Where: `node.name == "web01"`}
	property := model.Resource{Kind: "Property", Metadata: model.Metadata{Name: "p"}, Spec: &model.PropertySpec{Scope: "node:web01", Value: json.RawMessage("1")}}
	other := model.Resource{Kind: "Namespace", Metadata: model.Metadata{Name: "other"}, Spec: &model.NamespaceSpec{}}
	twin := model.Resource{Kind: "Node", Metadata: model.Metadata{Name: "web01", Namespace: "other"}, Spec: &model.NodeSpec{UID: uuid.NewString()}}
	w.apply(t, other, twin, disk, shared, listed, byName, property)
	before, _ := w.LookupNode(uid)
	w.RecordReport(before, intent.AgentReport{Facts: map[string]string{"os": "linux"}}) // the report is still pending
	if got, _ := w.RecordFirstKey(uid, "k1"); got != "k1" {
		t.Fatal(got)
	}
	if _, err := w.Rename(ctx, ada, "default", "web01", "db01", intent.ApplyOptions{}); model.ClassOf(err) != model.Conflict {
		t.Fatalf("to a name that is taken: %v", err)
	}
	if _, err := w.Rename(ctx, ada, "default", "web02", "web03", intent.ApplyOptions{}); model.ClassOf(err) != model.NotFound {
		t.Fatalf("of a node that is not there: %v", err)
	}
	dry, err := w.Rename(ctx, ada, "default", "web01", "shop01", intent.ApplyOptions{DryRun: true})
	if err != nil || dry.Revision != 0 || len(dry.Outcomes) != 5 {
		t.Fatalf("%+v, %v", dry, err)
	}
	applied, err := w.Rename(ctx, ada, "default", "web01", "shop01", intent.ApplyOptions{})
	testenv.NoError(t, err)
	var did []string
	for _, o := range applied.Outcomes {
		did = append(did, fmt.Sprint(o.Op, " ", o.Key))
		if o.Revision != applied.Revision {
			t.Errorf("%s is at revision %d, want %d", o.Key, o.Revision, applied.Revision)
		}
	}
	want := "renamed node/shop01, updated property/p, updated group/listed, updated group/shared/both, updated check/disk"
	if got := strings.Join(did, ", "); got != want {
		t.Errorf("done: %s\nwant: %s", got, want)
	}
	if warnings := strings.Join(applied.Outcomes[0].Warnings, "\n"); !strings.Contains(warnings, "group/named") || strings.Contains(warnings, "listed") {
		t.Errorf("warnings %q", warnings)
	}
	get := func(kind, ns, name string) model.Spec {
		t.Helper()
		r, err := w.Get(ctx, intent.Key{Kind: kind, Namespace: ns, Name: name})
		testenv.NoError(t, err)
		return r.Spec
	}
	targets := get("Check", "default", "disk").(*model.CheckSpec).Targets
	for _, c := range []struct{ got, want string }{
		{fmt.Sprint(get("Group", "default", "listed").(*model.GroupSpec).Nodes), "[db01 shop01 web011]"},
		{fmt.Sprint(get("Group", "shared", "both").(*model.GroupSpec).Nodes), "[web01 shop01 default/shop01 other/web01]"},
		{fmt.Sprint(targets.Nodes, targets.Except.Nodes), "[shop01] [db01 shop01]"},
		{get("Property", "default", "p").(*model.PropertySpec).Scope, "node:shop01"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
	testenv.NoError(t, w.WriteReportsNow(ctx))
	if node := get("Node", "default", "shop01").(*model.NodeSpec); node.UID != uid.String() || node.Facts["os"] != "linux" || node.Key != "k1" {
		t.Errorf("what its agent said follows: %+v", node)
	}
	for range 2 {
		if after, ok := w.LookupNode(uid); !ok || after.ID != before.ID || after.Name != "shop01" || after.Key != "k1" {
			t.Fatalf("%+v, before %+v", after, before)
		}
		w.open(t)
	}
	entries, err := w.Audit(ctx, intent.ChangeQuery{Kind: "Node", Namespace: "default", Name: "web01"}, false)
	if err != nil || len(entries) != 2 || entries[0].Op != "rename" || entries[0].Was != "web01" || entries[0].Key.Name != "shop01" {
		t.Fatalf("%+v, %v", entries, err)
	}
}
