package access_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestAgentPasswordIsCheckedOnce lets many agents use one password, and expects a single password comparison. The
// password of an agent user permits neither logins nor alerts.
func TestAgentPasswordIsCheckedOnce(t *testing.T) {
	s := newTestAccounts(t)
	ctx := t.Context()
	by := intent.Actor{User: "admin"}
	if _, err := s.CreateUser(ctx, by, access.User{Name: "sensu", Grants: access.Grants{Role: access.Agent, Namespaces: []string{"a"}}}, "P@ssw0rd!"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	var all sync.WaitGroup
	var asked atomic.Int64
	for range 2000 {
		all.Go(func() {
			if u, err := s.LoginProgram(ctx, access.Agent, "sensu", "P@ssw0rd!", func(context.Context) (func(bool), error) {
				asked.Add(1)
				return func(bool) {}, nil
			}); err != nil || !u.May("a") || u.May("b") || !s.Current(&u) {
				t.Errorf("%v %+v", err, u)
			}
		})
	}
	all.Wait()
	if took := time.Since(began); took > 15*time.Second { // 2,000 hashes are a minute
		t.Errorf("2,000 agents took %v", took)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the password of 2,000 agents was admitted %d times, want once", n)
	}
	for _, c := range [][2]string{{"sensu", "wrong"}, {"nobody", "P@ssw0rd!"}} {
		if _, err := s.LoginProgram(ctx, access.Agent, c[0], c[1], nil); model.ClassOf(err) != model.Unauthenticated {
			t.Errorf("%v: %v", c, err)
		}
	}
	assertRefused(t, model.Unauthenticated, "")(s.LoginProgram(ctx, access.Alerts, "sensu", "P@ssw0rd!", nil))
	if _, _, err := s.Login(ctx, "sensu", "P@ssw0rd!", "here"); model.ClassOf(err) != model.Unauthenticated {
		t.Errorf("the password of a program permits a login: %v", err)
	}
	u, _ := s.LoginProgram(ctx, access.Agent, "sensu", "P@ssw0rd!", nil)
	_, hash, err := access.HashPassword("another one")
	if err == nil {
		err = s.ResetPassword(ctx, by, "sensu", hash, false)
	}
	testenv.NoError(t, err)
	if _, err := s.LoginProgram(ctx, access.Agent, "sensu", "P@ssw0rd!", nil); err == nil || s.Current(&u) {
		t.Error("the old password is still accepted")
	}
	for _, u := range []access.User{{Name: "x", Grants: access.Grants{Role: access.Agent, Run: true}}, {Name: "x", Grants: access.Grants{Role: access.Admin, Namespaces: []string{"a"}}}} {
		if _, err := s.CreateUser(ctx, by, u, "long enough"); model.ClassOf(err) != model.Invalid {
			t.Errorf("%+v: %v", u, err)
		}
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	assertRefused(t, model.Unavailable, "")(s.LoginProgram(over, access.Agent, "sensu", "never seen", nil))
}

// TestWrongPasswordsThrottleOnlyTheirSender sends wrong passwords from one address, and expects delays only for that
// address. A cached outcome needs no admission.
func TestWrongPasswordsThrottleOnlyTheirSender(t *testing.T) {
	s := newTestAccounts(t)
	ctx := t.Context()
	if _, err := s.CreateUser(ctx, intent.Actor{User: "admin"}, access.User{Name: "sensu", Grants: access.Grants{Role: access.Agent}}, "P@ssw0rd!"); err != nil {
		t.Fatal(err)
	}
	tired := model.Errorf(model.Limited, "too many wrong passwords")
	refuses := func(context.Context) (func(bool), error) { return nil, tired }
	if _, err := s.LoginProgram(ctx, access.Agent, "sensu", "P@ssw0rd!", refuses); !errors.Is(err, tired) {
		t.Fatalf("a password that is not cached needs admission: %v", err)
	}
	// Where the first caller is not admitted, the waiting caller compares the password.
	held, let := make(chan struct{}), make(chan struct{})
	var both sync.WaitGroup
	both.Go(func() {
		_, err := s.LoginProgram(ctx, access.Agent, "sensu", "P@ssw0rd!", func(context.Context) (func(bool), error) { close(held); <-let; return nil, tired })
		if !errors.Is(err, tired) {
			t.Errorf("the throttled sender got: %v", err)
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
		if _, err := s.LoginProgram(ctx, access.Agent, "sensu", "P@ssw0rd!", begins); err != nil {
			t.Errorf("the admitted sender got: %v", err)
		}
	})
	close(let)
	both.Wait()
	if n := ended.Load(); n != 1 {
		t.Errorf("comparisons: %d, want 1", n)
	}
	if _, err := s.LoginProgram(ctx, access.Agent, "sensu", "P@ssw0rd!", refuses); err != nil {
		t.Errorf("a cached right password got: %v", err)
	}
	for range 3 {
		assertRefused(t, model.Unauthenticated, "")(s.LoginProgram(ctx, access.Agent, "sensu", "wrong", begins))
	}
	if n := ended.Load(); n != 102 {
		t.Errorf("one wrong password, sent three times, was counted as %d", n)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	assertRefused(t, model.Unavailable, "")(s.LoginProgram(gone, access.Agent, "sensu", "another", func(ctx context.Context) (func(bool), error) { return nil, ctx.Err() }))
}
