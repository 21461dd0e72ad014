package intent_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// The password of agents is checked once for all that come with it, and opens nothing else.
func TestAgentsLogIn(t *testing.T) {
	s := newWorld(t)
	ctx := t.Context()
	by := intent.Who{User: "admin"}
	if _, err := s.CreateUser(ctx, by, intent.User{Name: "sensu", Role: intent.Agents, Namespaces: []string{"a"}}, "P@ssw0rd!"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	var all sync.WaitGroup
	var asked atomic.Int64
	for range 2000 {
		all.Go(func() {
			if u, err := s.LoginAgent(ctx, intent.Agents, "sensu", "P@ssw0rd!", func(context.Context) (func(bool), error) {
				asked.Add(1)
				return func(bool) {}, nil
			}); err != nil || !u.May("a") || u.May("b") || !s.StillAgent(&u) {
				t.Errorf("%v %+v", err, u)
			}
		})
	}
	all.Wait()
	if took := time.Since(began); took > 15*time.Second { // 2,000 hashes are a minute
		t.Errorf("2,000 agents took %v", took)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("one password of 2,000 agents was %d tries", n)
	}
	for _, c := range [][2]string{{"sensu", "wrong"}, {"nobody", "P@ssw0rd!"}} {
		if _, err := s.LoginAgent(ctx, intent.Agents, c[0], c[1], nil); model.ClassOf(err) != model.Unauthenticated {
			t.Errorf("%v: %v", c, err)
		}
	}
	if _, err := s.LoginAgent(ctx, intent.Alerts, "sensu", "P@ssw0rd!", nil); model.ClassOf(err) != model.Unauthenticated {
		t.Errorf("the password on every machine brings alerts in of any: %v", err)
	}
	if _, _, err := s.Login(ctx, "sensu", "P@ssw0rd!", "here"); model.ClassOf(err) != model.Unauthenticated {
		t.Errorf("somebody logs in with it: %v", err)
	}
	u, _ := s.LoginAgent(ctx, intent.Agents, "sensu", "P@ssw0rd!", nil)
	_, hash, err := intent.HashPassword("another one")
	if err == nil {
		err = s.ResetPassword(ctx, by, "sensu", hash, false)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.LoginAgent(ctx, intent.Agents, "sensu", "P@ssw0rd!", nil); err == nil || s.StillAgent(&u) {
		t.Error("the password before is good still")
	}
	for _, u := range []intent.User{{Name: "x", Role: intent.Agents, Run: true}, {Name: "x", Role: intent.Admin, Namespaces: []string{"a"}}} {
		if _, err := s.CreateUser(ctx, by, u, "long enough"); model.ClassOf(err) != model.Invalid {
			t.Errorf("%+v: %v", u, err)
		}
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.LoginAgent(over, intent.Agents, "sensu", "never seen", nil); model.ClassOf(err) != model.Unavailable {
		t.Errorf("who cannot wait: %v", err)
	}
}

// Before a password is looked at that was not seen before somebody may refuse that, for who shows
// it; what is known costs nothing, wrong or right.
func TestWhoGuessesIsHeldBackAndNobodyElse(t *testing.T) {
	s := newWorld(t)
	ctx := t.Context()
	if _, err := s.CreateUser(ctx, intent.Who{User: "admin"}, intent.User{Name: "sensu", Role: intent.Agents}, "P@ssw0rd!"); err != nil {
		t.Fatal(err)
	}
	tired := model.Errorf(model.Limited, "too many wrong passwords")
	refuses := func(context.Context) (func(bool), error) { return nil, tired }
	if _, err := s.LoginAgent(ctx, intent.Agents, "sensu", "P@ssw0rd!", refuses); !errors.Is(err, tired) {
		t.Fatalf("nobody has seen it: %v", err)
	}
	// One who waits for what another one may not look at looks at it himself.
	held, let := make(chan struct{}), make(chan struct{})
	var both sync.WaitGroup
	both.Go(func() {
		_, err := s.LoginAgent(ctx, intent.Agents, "sensu", "P@ssw0rd!", func(context.Context) (func(bool), error) { close(held); <-let; return nil, tired })
		if !errors.Is(err, tired) {
			t.Errorf("who guesses: %v", err)
		}
	})
	<-held
	var ended atomic.Int64
	begins := func(context.Context) (func(bool), error) {
		return func(wrong bool) {
			if ended.Add(1); wrong {
				ended.Add(100)
			}
		}, nil
	}
	both.Go(func() {
		if _, err := s.LoginAgent(ctx, intent.Agents, "sensu", "P@ssw0rd!", begins); err != nil {
			t.Errorf("who has tries left: %v", err)
		}
	})
	close(let)
	both.Wait()
	if n := ended.Load(); n != 1 {
		t.Errorf("looked at: %d", n)
	}
	if _, err := s.LoginAgent(ctx, intent.Agents, "sensu", "P@ssw0rd!", refuses); err != nil {
		t.Errorf("what is known to be right: %v", err)
	}
	for range 3 {
		if _, err := s.LoginAgent(ctx, intent.Agents, "sensu", "wrong", begins); model.ClassOf(err) != model.Unauthenticated {
			t.Errorf("a wrong one: %v", err)
		}
	}
	if n := ended.Load(); n != 102 {
		t.Errorf("one wrong password, shown three times: %d", n)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.LoginAgent(gone, intent.Agents, "sensu", "another", func(ctx context.Context) (func(bool), error) { return nil, ctx.Err() }); model.ClassOf(err) != model.Unavailable {
		t.Errorf("who has gone: %v", err)
	}
}

// A stranger's node is the same whenever it comes, is told apart by its own system's name,
// and comes no more once it was retired.
func TestMeet(t *testing.T) {
	s := newWorld(t)
	ctx := t.Context()
	by := intent.Who{User: "sensu"}
	meet := func(namespace, name string) (intent.NodeInfo, error) {
		return s.Meet(ctx, by, &intent.Stranger{System: "sensu", Namespace: namespace, Name: name, Said: intent.Said{Labels: map[string]string{"a": "b"}, Groups: []string{"web"}}})
	}
	first, err := meet("default", "Web.1")
	if err != nil || first.Name != "web.1" || first.Key != "" {
		t.Fatalf("%v %+v", err, first)
	}
	if again, err := meet("default", "Web.1"); err != nil || again.ID != first.ID {
		t.Errorf("the same: %v %+v", err, again)
	}
	if other, err := meet("default", "web.1"); err != nil || other.Name != "web.1-2" || other.UID == first.UID {
		t.Errorf("one whose name is the same here: %v %+v", err, other)
	}
	if _, err := meet("nowhere", "web"); model.ClassOf(err) != model.NotFound {
		t.Errorf("no namespace: %v", err)
	}
	var all sync.WaitGroup
	ids := make([]model.NodeID, 8)
	for i := range ids {
		all.Go(func() {
			info, err := meet("default", "twice")
			if ids[i] = info.ID; err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		if id != ids[0] || id == 0 {
			t.Fatal(fmt.Sprint("it came by several connections at once: ", ids))
		}
	}
}
