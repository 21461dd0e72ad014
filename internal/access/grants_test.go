package access_test

import (
	"testing"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// roleBindings maps the name of each namespace to the user's role in that namespace.
type roleBindings = map[string]string

// TestContradictoryGrantsAreRefused expects an error for a user's rights that contradict the user's role. Rights
// without a role or with an unknown role are refused too.
func TestContradictoryGrantsAreRefused(t *testing.T) {
	for _, c := range []struct {
		grants access.Grants
		valid  bool
	}{
		{access.Grants{Role: access.Viewer}, true},
		{access.Grants{}, false},
		{access.Grants{Role: "captain"}, false},
		{access.Grants{Bindings: roleBindings{"web": access.Operator}}, true},
		{access.Grants{Role: access.Viewer, Bindings: roleBindings{"web": access.Admin}, Run: true}, true},
		{access.Grants{Bindings: roleBindings{"web": "captain"}}, false},
		{access.Grants{Bindings: roleBindings{"web": access.Agent}}, false},
		{access.Grants{Bindings: roleBindings{"": access.Viewer}}, false},
		{access.Grants{Bindings: roleBindings{"shared": access.Viewer}}, false}, // resources of namespace shared reach all nodes
		{access.Grants{Bindings: roleBindings{"web": access.Viewer}, Run: true}, false},
		{access.Grants{Role: access.Viewer, Namespaces: []string{"web"}}, false},
		{access.Grants{Role: access.Alerts, Namespaces: []string{"web"}}, true},
		{access.Grants{Role: access.Agent, Bindings: roleBindings{"web": access.Viewer}}, false},
		{access.Grants{Role: access.Agent, Run: true}, false},
	} {
		if err := c.grants.Validate(); (err == nil) != c.valid || err != nil && model.ClassOf(err) != model.Invalid {
			t.Errorf("%s: %v", &c.grants, err)
		}
	}
}

// TestCoveredByMatchesPermittedOperations checks CoveredBy, for all pairs of grants, against the operations
// that each grant permits.
func TestCoveredByMatchesPermittedOperations(t *testing.T) {
	var all []access.Grants
	roles := []string{"", access.Viewer, access.Operator, access.Admin}
	for _, role := range roles {
		for _, web := range roles {
			for _, run := range []bool{false, true} {
				g := access.Grants{Role: role, Run: run}
				if web != "" {
					g.Bindings = roleBindings{"web": web}
				}
				if g.Validate() == nil {
					all = append(all, g)
				}
			}
		}
	}
	for i := range all {
		for j := range all {
			less, more := access.Subject{Grants: all[i]}, access.Subject{Grants: all[j]}
			want := !less.Run || more.Run
			for _, namespace := range []string{"web", "db"} {
				for verb := access.Read; verb <= access.Change; verb++ {
					want = want && (!less.May(verb, namespace) || more.May(verb, namespace))
					want = want && (!less.MayEverywhere(verb) || more.MayEverywhere(verb))
				}
				want = want && (!less.MayRun(namespace) || more.MayRun(namespace))
			}
			if got := all[i].CoveredBy(&all[j]); got != want {
				t.Errorf("%q within %q: %v", &all[i], &all[j], got)
			}
		}
	}
	alerts := access.Grants{Role: access.Alerts, Namespaces: []string{"web"}}
	for maker, want := range map[string]bool{access.Admin: true, access.Operator: false} {
		if alerts.CoveredBy(&access.Grants{Bindings: roleBindings{"web": maker}}) != want {
			t.Errorf("a grant of alerts for namespace web by its %s: %v", maker, !want)
		}
	}
	alerts.Namespaces = nil
	if alerts.CoveredBy(&access.Grants{Bindings: roleBindings{"web": access.Admin}}) {
		t.Error("the admin of one namespace may grant alerts for every namespace")
	}
}

// TestNewGrantsReachSessionsAndEndTokens changes a user's rights, and expects new rights in open sessions and
// deletion of wider tokens. Tokens with more rights than the user must be deleted. The last administrator stays
// one.
func TestNewGrantsReachSessionsAndEndTokens(t *testing.T) {
	w, ctx := newTestAccounts(t), t.Context()
	create := func(name string, g access.Grants) {
		if _, err := w.CreateUser(ctx, adaAuthor, access.User{Name: name, Grants: g}, "correct horse"); err != nil {
			t.Fatal(err)
		}
	}
	create("root", access.Grants{Role: access.Admin})
	create("ann", access.Grants{Role: access.Operator, Run: true})
	create("agents", access.Grants{Role: access.Agent})
	session, _, err := w.Login(ctx, "ann", "correct horse", "here")
	testenv.NoError(t, err)
	token := func(g access.Grants) string {
		secret, _, err := w.CreateToken(ctx, adaAuthor, access.AccessToken{User: "ann", Grants: g})
		testenv.NoError(t, err)
		return secret
	}
	wide, narrow := token(access.Grants{Role: access.Viewer}), token(access.Grants{Bindings: roleBindings{"web": access.Viewer}})
	u, err := w.Grant(ctx, adaAuthor, "ann", access.Grants{Bindings: roleBindings{"web": access.Operator}})
	if err != nil || u.Sessions != 1 || u.Tokens != 1 || u.Bindings["web"] != access.Operator {
		t.Fatalf("%+v %v", u, err)
	}
	for range 2 {
		s, err := w.Authenticate(session)
		if err != nil || s.May(access.Read, "db") || !s.May(access.Operate, "web") || s.May(access.Change, "web") || s.MayRun("web") {
			t.Errorf("the session has other grants than its user: %+v %v", s, err)
		}
		assertRefused(t, model.Unauthenticated, "")(w.Authenticate(wide))
		if _, err := w.Authenticate(narrow); err != nil {
			t.Errorf("a token with fewer rights has ended: %v", err)
		}
		w.restart(t) // as after a restart
	}
	for name, class := range map[string]model.Class{"root": model.Conflict, "agents": model.Conflict, "amm": model.NotFound} {
		if _, err := w.Grant(ctx, adaAuthor, name, access.Grants{Role: access.Viewer}); model.ClassOf(err) != class {
			t.Errorf("%s: %v", name, err)
		}
	}
}
