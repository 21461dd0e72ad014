package intentdb_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/plan"
	"github.com/muster-fleet/muster/internal/store/intentdb"
	"github.com/muster-fleet/muster/internal/store/pgtest"
	"github.com/muster-fleet/muster/internal/testenv"
)

// opener returns a function that opens the intent store at dsn.
func opener(t *testing.T, dsn string) func() intent.Store {
	return func() intent.Store {
		s, err := intentdb.Open(t.Context(), dsn, kind.All(), time.Now)
		testenv.NoError(t, err)
		return s
	}
}

// TestStoreOnSQLite runs the store's conformance tests on SQLite.
func TestStoreOnSQLite(t *testing.T) {
	testStore(t, func(t *testing.T) func() intent.Store {
		return opener(t, filepath.Join(t.TempDir(), "intent.db"))
	})
}

// TestStoreOnPostgreSQL runs the store's conformance tests on PostgreSQL.
func TestStoreOnPostgreSQL(t *testing.T) {
	server := pgtest.Start(t)
	testStore(t, func(t *testing.T) func() intent.Store { return opener(t, server.Database(t)) })
}

// TestNewKindSharesIDsWithChecks registers another kind of resource, and expects its ids from the number
// sequence of checks.
func TestNewKindSharesIDsWithChecks(t *testing.T) {
	kinds := kind.All().With(kind.Kind{Definition: kind.Definition[model.Spec]{KindInfo: model.KindInfo{Name: "Toy", Plural: "toys"}, Unit: 99}})
	s := testenv.Value(intentdb.Open(t.Context(), filepath.Join(t.TempDir(), "intent.db"), kinds, time.Now))(t)
	defer s.Close()
	done := testenv.Value(s.Commit(t.Context(), intent.Actor{}, []intent.Write{
		{Key: intent.Key{Kind: "Check", Namespace: "default", Name: "disk"}, Body: []byte("{}")},
		{Key: intent.Key{Kind: "Toy", Namespace: "default", Name: "ball"}, Body: []byte("{}")},
	}))(t)
	if done.Rows[1].ID != done.Rows[0].ID+1 {
		t.Errorf("ids %d and %d", done.Rows[0].ID, done.Rows[1].ID)
	}
}

// TestManipulatedRowsAreDetected changes letters inside the database file, and expects Open to report the damage. Repair
// omits and names just the changed rows. A faulty disk may do that.
func TestManipulatedRowsAreDetected(t *testing.T) {
	path := filepath.Join(t.TempDir(), "intent.db")
	s := opener(t, path)()
	for _, name := range []string{"first", "spoilt", "second", "rotten", "third"} {
		_, err := s.Commit(t.Context(), intent.Actor{}, []intent.Write{{Key: intent.Key{Kind: "user", Name: name}, Body: []byte("body of " + name)}})
		testenv.NoError(t, err)
	}
	testenv.NoError(t, s.Close())
	content := testenv.Value(os.ReadFile(path))(t)
	for _, body := range []string{"body of spoilt", "body of rotten"} {
		at := bytes.Index(content, []byte(body))
		content[at] ^= 0x10
	}
	testenv.NoError(t, os.WriteFile(path, content, 0o600))

	_, err := intentdb.Open(t.Context(), path, kind.All(), time.Now)
	var said *model.Error
	if !errors.As(err, &said) || !strings.Contains(err.Error(), path+" is damaged") || !strings.Contains(said.Hint, "muster doctor repair --data "+filepath.Dir(path)) {
		t.Fatalf("opened a changed file: %v", err)
	}
	losses := testenv.Value(intentdb.Repair(t.Context(), path))(t)
	text := strings.Join(losses, "\n")
	if !strings.Contains(text, "[user  spoilt]") || !strings.Contains(text, "[user  rotten]") || strings.Contains(text, "third") {
		t.Errorf("losses:\n%s", text)
	}
	s = opener(t, path)()
	defer s.Close()
	rows := testenv.Value(s.List(t.Context(), intent.ListQuery{Kind: "user"}))(t)
	if len(rows) != 3 {
		t.Errorf("%d rows remain, want 3", len(rows))
	}
}

// TestRestartedPlannerKeepsCheckIDs restarts the planner on a real store, and expects compiled checks to keep their ids. An
// edited check gets a new id.
func TestRestartedPlannerKeepsCheckIDs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "intent.db")
	open := func() (intent.Store, *plan.Planner) {
		s, err := intentdb.Open(t.Context(), path, kind.All(), time.Now)
		testenv.NoError(t, err)
		p := plan.New(plan.Options{Store: s, Epoch: 1})
		testenv.NoError(t, p.Load(t.Context()))
		return s, p
	}
	s, p := open()
	wake := make(chan struct{}, 1)
	changed := make(chan []model.NodeID, 10)
	p.Directory().Subscribe(func(c directory.Change) { changed <- c.Assignments })
	go p.Run(t.Context(), wake)
	commit := func(kind, name string, spec model.Spec) {
		t.Helper()
		body, err := json.Marshal(model.Resource{
			APIVersion: model.APIVersion, Kind: kind, Metadata: model.Metadata{Name: name, Namespace: "default"}, Spec: spec,
		})
		testenv.NoError(t, err)
		_, err = s.Commit(t.Context(), intent.Actor{User: "test"}, []intent.Write{{
			Key: intent.Key{Kind: kind, Namespace: "default", Name: name}, Body: body, Expect: -1,
		}})
		testenv.NoError(t, err)
		wake <- struct{}{}
	}
	next := func() model.NodeID {
		t.Helper()
		select {
		case nodes := <-changed:
			return nodes[0]
		case <-time.After(30 * time.Second):
			t.Fatal("no assignment changed in time")
			panic("unreachable")
		}
	}
	disk := func(command string, targets *model.Targets) *model.CheckSpec {
		return &model.CheckSpec{Command: &model.Command{Shell: command}, Interval: model.Duration(time.Minute), Targets: targets}
	}
	commit("Node", "web01", &model.NodeSpec{Groups: []string{"web"}})
	node := next()
	commit("Check", "disk", disk("check_disk", &model.Targets{Groups: []string{"web"}}))
	next()
	first := p.Directory().AssignmentOf(node)
	commit("Check", "disk", disk("check_disk -w 20%", &model.Targets{Groups: []string{"web"}}))
	next()
	second := p.Directory().AssignmentOf(node)
	if first.Definitions[0].ID == 0 || first.Definitions[0].ID == second.Definitions[0].ID || first.Definitions[0].Unit != second.Definitions[0].Unit {
		t.Errorf("definitions %+v and %+v", first.Definitions[0], second.Definitions[0])
	}
	if !first.Generation.Less(second.Generation) {
		t.Errorf("generations %v and %v", first.Generation, second.Generation)
	}
	testenv.NoError(t, s.Close())

	s, p = open()
	defer s.Close()
	if after := p.Directory().AssignmentOf(node); after.Hash != second.Hash || after.Generation.Less(second.Generation) {
		t.Errorf("after a restart %+v, before %+v", after, second)
	}
	if old := p.Directory().Definition(first.Definitions[0].ID); old == nil || old.Hash != first.Definitions[0].Hash {
		t.Error("the older definition is unknown after a restart")
	}
}

var who = intent.Actor{User: "ada", Address: "127.0.0.1", Message: "because", Owner: "team", Maker: "lin"}

// put returns a write for tests, which stores a resource under a key.
func put(kind, ns, name, body string, expect int64) intent.Write {
	return intent.Write{Key: intent.Key{Kind: kind, Namespace: ns, Name: name}, Body: []byte(body), Expect: expect}
}

// deletion returns a write for tests, which deletes a resource.
func deletion(kind, ns, name string, expect int64) intent.Write {
	return intent.Write{Key: intent.Key{Kind: kind, Namespace: ns, Name: name}, Expect: expect}
}

// testStore checks every guarantee that the interface intent.Store documents. newStore makes an empty store; the
// function that it returns opens that store, again with each call.
func testStore(t *testing.T, newStore func(t *testing.T) (open func() intent.Store)) {
	ctx := t.Context()
	commit := func(t *testing.T, s intent.Store, writes ...intent.Write) intent.CommitResult {
		t.Helper()
		c, err := s.Commit(ctx, who, writes)
		testenv.NoError(t, err)
		return c
	}

	t.Run("a written row is read with its id, revision and times", func(t *testing.T) {
		open := newStore(t)
		s := open()
		c := commit(t, s, put("Check", "default", "disk", `{"a":1}`, 0), put("Check", "default", "load", `{}`, 0))
		if c.Revision != 1 || len(c.Rows) != 2 || c.Rows[0].ID != uint32(model.FirstCheck) || c.Rows[1].ID != uint32(model.FirstCheck)+1 {
			t.Fatalf("%+v", c)
		}
		c = commit(t, s, put("Check", "default", "disk", `{"a":2}`, 1))
		s.Close()
		s = open()
		defer s.Close()
		row, err := s.Get(ctx, c.Rows[0].Key)
		if err != nil || string(row.Body) != `{"a":2}` || row.Revision != 2 || row.ID != uint32(model.FirstCheck) || row.Created.After(row.Updated) || row.Created.IsZero() {
			t.Fatalf("%+v, %v", row, err)
		}
		if r, err := s.Revision(ctx); err != nil || r != 2 {
			t.Fatal(r, err)
		}
		if _, err := s.Get(ctx, intent.Key{Kind: "Check", Namespace: "default", Name: "dis"}); model.ClassOf(err) != model.NotFound {
			t.Fatalf("got %v, want NotFound", err)
		}
	})

	t.Run("a commit writes all its rows or none", func(t *testing.T) {
		s := newStore(t)()
		defer s.Close()
		commit(t, s, put("Group", "default", "a", `{}`, 0))
		for name, bad := range map[string]intent.Write{
			"exists already":    put("Group", "default", "a", `{}`, 0),
			"wrong revision":    put("Group", "default", "a", `{}`, 7),
			"deleted since":     put("Group", "default", "gone", `{}`, 3),
			"delete, changed":   deletion("Group", "default", "a", 9),
			"delete, not there": deletion("Group", "default", "gone", -1),
		} {
			if _, err := s.Commit(ctx, who, []intent.Write{put("Group", "default", "b", `{}`, 0), bad}); err == nil {
				t.Errorf("%s: no error", name)
			} else if c := model.ClassOf(err); c != model.Conflict && c != model.NotFound {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := s.Get(ctx, intent.Key{Kind: "Group", Namespace: "default", Name: "b"}); model.ClassOf(err) != model.NotFound {
			t.Fatalf("half a commit was kept: %v", err)
		}
		if r, _ := s.Revision(ctx); r != 1 {
			t.Fatalf("revision %d, want 1", r)
		}
	})

	t.Run("ids are never used again", func(t *testing.T) {
		open := newStore(t)
		s := open()
		first := commit(t, s, put("Node", "default", "a", `{}`, 0)).Rows[0].ID
		commit(t, s, deletion("Node", "default", "a", -1))
		s.Close()
		s = open()
		defer s.Close()
		second := commit(t, s, put("Node", "default", "a", `{}`, 0)).Rows[0].ID
		if first != 1000 || second != 1001 {
			t.Fatalf("ids %d and %d, want 1000 and 1001", first, second)
		}
		units := commit(t, s, put("Template", "", "a", `{}`, 0), put("Check", "", "a", `{}`, 0), put("Template", "", "b", `{}`, 0))
		if units.Rows[0].ID != 1000 || units.Rows[1].ID != 1001 || units.Rows[2].ID != 1002 { // an id names one unit
			t.Fatalf("%+v", units.Rows)
		}
		c := commit(t, s, put("Namespace", "", "default", `{}`, 0), put("Namespace", "", "shared", `{}`, 0), put("Namespace", "", "x", `{}`, 0))
		if c.Rows[0].ID != 1 || c.Rows[1].ID != 2 || c.Rows[2].ID != 1000 {
			t.Fatalf("%+v", c.Rows)
		}
	})

	t.Run("a row that moves keeps its id", func(t *testing.T) {
		open := newStore(t)
		s := open()
		move := func(from, to, body string, expect int64) intent.Write {
			w := put("Node", "default", to, body, expect)
			w.From = from
			return w
		}
		made := commit(t, s, put("Node", "default", "a", `{"v":1}`, 0), put("Node", "default", "other", `{}`, 0), put("Group", "default", "g", `{"a":1}`, 0)).Rows[0]
		for name, bad := range map[string]intent.Write{
			"the name is taken": move("a", "other", `{}`, 1),
			"changed since":     move("a", "b", `{}`, 9),
			"not there":         move("gone", "b", `{}`, -1),
		} {
			if _, err := s.Commit(ctx, who, []intent.Write{put("Group", "default", "g", `{}`, 1), bad}); err == nil {
				t.Errorf("%s: no error", name)
			} else if c := model.ClassOf(err); c != model.Conflict && c != model.NotFound {
				t.Errorf("%s: %v", name, err)
			}
		}
		c := commit(t, s, move("a", "b", `{"v":2}`, 1), put("Group", "default", "g", `{"b":1}`, 1))
		s.Close()
		s = open()
		defer s.Close()
		row, err := s.Get(ctx, intent.Key{Kind: "Node", Namespace: "default", Name: "b"})
		if err != nil || row.ID != made.ID || c.Rows[0].ID != made.ID || !row.Created.Equal(made.Created) || row.Revision != 2 || string(row.Body) != `{"v":2}` {
			t.Fatalf("%+v, %v; made as %+v", row, err, made)
		}
		if _, err := s.Get(ctx, made.Key); model.ClassOf(err) != model.NotFound {
			t.Fatalf("at the old name: %v", err)
		}
		changes, err := s.Changes(ctx, 1, 0)
		if err != nil || len(changes) != 2 {
			t.Fatalf("%d changes, %v", len(changes), err)
		}
		if got := changes[0]; got.Op != "rename" || got.Was != "a" || got.Key.Name != "b" || got.ID != made.ID || string(got.Before) != `{"v":1}` || string(got.After) != `{"v":2}` {
			t.Errorf("recorded as %+v", got)
		}
		for name, want := range map[string]int{"a": 2, "b": 1, "other": 1} {
			if of, err := s.ChangesBefore(ctx, intent.ChangeQuery{Kind: "Node", Namespace: "default", Name: name}); err != nil || len(of) != want {
				t.Errorf("%d changes of %s, %v; want %d", len(of), name, err, want)
			}
		}
		if next := commit(t, s, put("Node", "default", "a", `{}`, 0)).Rows[0].ID; next == made.ID {
			t.Errorf("id %d was given again", next)
		}
	})

	t.Run("lists are in key order and page by the last key", func(t *testing.T) {
		s := newStore(t)()
		defer s.Close()
		names := []string{"B", "a", "a-b", "a.b", "ab", "é"}
		var writes []intent.Write
		for _, ns := range []string{"y", "x"} {
			for i := range names {
				writes = append(writes, put("Group", ns, names[len(names)-1-i], `{}`, 0))
			}
		}
		commit(t, s, writes...)
		var got []string
		var after intent.Key
		for {
			page, err := s.List(ctx, intent.ListQuery{Kind: "Group", After: after, Limit: 5})
			testenv.NoError(t, err)
			if len(page) == 0 {
				break
			}
			for _, row := range page {
				got = append(got, row.Namespace+"/"+row.Name)
			}
			after = page[len(page)-1].Key
		}
		var want []string
		for _, ns := range []string{"x", "y"} {
			for _, n := range names {
				want = append(want, ns+"/"+n)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
		if one, err := s.List(ctx, intent.ListQuery{Kind: "Group", Namespace: "y"}); err != nil || len(one) != len(names) {
			t.Fatal(len(one), err)
		}
	})

	t.Run("every change is recorded with author, address, reason and bodies", func(t *testing.T) {
		s := newStore(t)()
		defer s.Close()
		commit(t, s, put("Check", "default", "a", `{"v":1}`, 0), put("user", "", "ada", `{"hash":"secret"}`, 0))
		commit(t, s, put("Check", "default", "a", `{"v":2}`, -1))
		commit(t, s, deletion("Check", "default", "a", 2))
		commit(t, s, put("Node", "default", "n", `{}`, 0))
		gone := deletion("Node", "default", "n", 4)
		gone.Retire = true
		commit(t, s, gone)
		changes, err := s.Changes(ctx, 0, 0)
		if err != nil || len(changes) != 6 {
			t.Fatalf("%d changes, %v", len(changes), err)
		}
		for i, want := range []struct{ op, before, after string }{
			{"create", "", `{"v":1}`}, {"create", "", ""}, {"update", `{"v":1}`, `{"v":2}`}, {"delete", `{"v":2}`, ""},
			{"create", "", `{}`}, {"retire", `{}`, ""},
		} {
			c := changes[i]
			if c.Op != want.op || string(c.Before) != want.before || string(c.After) != want.after || c.Actor != who || c.At.IsZero() || c.ID == 0 {
				t.Errorf("change %d: %+v, want %+v", i, c, want)
			}
		}
		// A page never ends in the middle of a revision.
		page, err := s.Changes(ctx, 0, 1)
		if err != nil || len(page) != 2 {
			t.Fatalf("page of %d, %v; want the whole first revision", len(page), err)
		}
		if rest, err := s.Changes(ctx, 2, 10); err != nil || len(rest) != 3 {
			t.Fatal(len(rest), err)
		}
	})

	t.Run("changes are listed newest first, by kind, name and author", func(t *testing.T) {
		s := newStore(t)()
		defer s.Close()
		commit(t, s, put("Check", "default", "a", `{"v":1}`, 0), put("user", "", "ada", `{}`, 0), put("definition", "", "1", `{}`, 0)) // 1
		commit(t, s, put("Check", "other", "a", `{"v":1}`, 0), put("Group", "default", "a", `{}`, 0))                                  // 2
		commit(t, s, put("Check", "default", "a", `{"v":2}`, -1))                                                                      // 3
		testenv.Value(s.Commit(ctx, intent.Actor{User: "server"}, []intent.Write{put("Node", "default", "n", `{}`, 0)}))(t)
		if _, err := s.Commit(ctx, intent.Actor{User: "token:t1"}, []intent.Write{put("Node", "default", "m", `{}`, 0)}); err != nil { // 5
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			q    intent.ChangeQuery
			want string
		}{
			"all":           {intent.ChangeQuery{}, "5.0 4.0 3.0 2.1 2.0 1.2 1.1 1.0"},
			"of a kind":     {intent.ChangeQuery{Kind: "Check"}, "3.0 2.0 1.0"},
			"of one":        {intent.ChangeQuery{Kind: "Check", Namespace: "default", Name: "a"}, "3.0 1.0"},
			"not of a kind": {intent.ChangeQuery{NotKinds: []string{"definition"}, Limit: 6}, "5.0 4.0 3.0 2.1 2.0 1.1"},
			"resources":     {intent.ChangeQuery{Resources: true}, "5.0 4.0 3.0 2.1 2.0 1.0"},
			"by people":     {intent.ChangeQuery{Resources: true, People: true}, "3.0 2.1 2.0 1.0"},
			"a page":        {intent.ChangeQuery{Revision: 2, Part: 1, Limit: 2}, "2.0 1.2"},
		} {
			for _, bodies := range []bool{false, true} {
				c.q.Bodies = bodies
				changes, err := s.ChangesBefore(ctx, c.q)
				var got []string
				for _, c := range changes {
					got = append(got, fmt.Sprintf("%d.%d", c.Revision, c.Part))
					if c.Key.Kind == "Check" && (c.After != nil) != bodies {
						t.Errorf("%s: body %q, wanted %v", name, c.After, bodies)
					}
				}
				if err != nil || strings.Join(got, " ") != c.want {
					t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
				}
			}
		}
	})

	t.Run("of concurrent writers with one expected revision one succeeds", func(t *testing.T) {
		s := newStore(t)()
		defer s.Close()
		commit(t, s, put("Group", "default", "g", `{}`, 0))
		var wg sync.WaitGroup
		wins := make(chan int64, 16)
		for i := range 16 {
			wg.Go(func() {
				c, err := s.Commit(context.WithoutCancel(ctx), who, []intent.Write{put("Group", "default", "g", fmt.Sprintf(`{"by":%d}`, i), 1)})
				switch {
				case err == nil:
					wins <- c.Revision
				case model.ClassOf(err) != model.Conflict:
					t.Errorf("got %v, want a conflict", err)
				}
			})
		}
		wg.Wait()
		close(wins)
		if len(wins) != 1 {
			t.Fatalf("%d winners", len(wins))
		}
	})

	t.Run("one commit writes the nodes of a whole fleet", func(t *testing.T) {
		s := newStore(t)()
		defer s.Close()
		n := 10_000
		if testing.Short() {
			n = 2_000
		}
		writes := make([]intent.Write, n)
		for i := range writes {
			writes[i] = put("Node", "default", fmt.Sprintf("node%05d", i), `{"uid":"x"}`, 0)
		}
		if c := commit(t, s, writes...); c.Rows[n-1].ID != uint32(999+n) {
			t.Fatalf("last id %d", c.Rows[n-1].ID)
		}
	})

	t.Run("another incarnation skips ids of the previous one", func(t *testing.T) {
		open := newStore(t)
		s := open()
		begin := func(incarnation uint64) {
			t.Helper()
			testenv.NoError(t, s.RecordIncarnation(ctx, incarnation, intent.JournaledRevision{}))
		}
		begin(1 << 63) // the first incarnation: no ids to skip
		commit(t, s, put("Check", "default", "a", `{}`, 0))
		begin(1 << 63)
		if c := commit(t, s, put("Check", "default", "b", `{}`, 0)); c.Rows[0].ID != uint32(model.FirstCheck)+1 {
			t.Fatalf("the same life: id %d", c.Rows[0].ID)
		}
		begin(5)
		testenv.NoError(t, s.Close())
		s = open()
		defer s.Close()
		begin(5)
		c := commit(t, s, put("Check", "default", "c", `{}`, 0), put("Node", "default", "first", `{}`, 0), put("Check", "default", "a", `{}`, -1))
		if c.Rows[0].ID != uint32(model.FirstCheck)+2+intent.IDGap || c.Rows[1].ID != 1000+intent.IDGap || c.Rows[2].ID != uint32(model.FirstCheck) {
			t.Fatalf("another life: ids %d, %d, %d", c.Rows[0].ID, c.Rows[1].ID, c.Rows[2].ID)
		}
	})

	t.Run("a new store passes over ids and revisions that the journal has seen", func(t *testing.T) {
		s := newStore(t)()
		defer s.Close()
		identity := s.Identity()
		if identity == 0 || s.LastID() != 0 {
			t.Fatalf("identity %d, last id %d", identity, s.LastID())
		}
		testenv.NoError(t, s.RecordIncarnation(ctx, 7, intent.JournaledRevision{Revision: 50, LastID: 4000}))
		c := commit(t, s, put("Check", "default", "a", `{}`, 0))
		if want := uint32(4000 + intent.IDGap); c.Rows[0].ID <= want || c.Revision != 51 || s.LastID() != c.Rows[0].ID {
			t.Fatalf("id %d, want above %d; revision %d; last id %d", c.Rows[0].ID, want, c.Revision, s.LastID())
		}
		if life, err := s.Incarnation(ctx); err != nil || life != 7 || s.Identity() != identity {
			t.Fatalf("incarnation %d, identity %d: %v", life, s.Identity(), err)
		}
	})
}
