package op

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/view"
)

// userRequest returns a request with the identity of a user.
func userRequest(t *testing.T, user, method, target, body string) *http.Request {
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r.WithContext(access.WithCaller(r.Context(), access.Caller{Subject: access.Subject{User: user, Grants: access.Grants{Role: access.Admin}}}))
}

// TestConditionsOfOneUserWait sends requests with conditions, and expects at most two of a user at a time. Requests without
// conditions and those of other users do not wait.
func TestConditionsOfOneUserWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRoutes(Options{View: view.New(view.Stores{}, view.Live{})})
		at := NewOperationSet(r, func(q Request) Request { return q })
		running, end := map[string]int{}, make(chan struct{})
		began := make(chan string)
		Handle(at, Get("probe", "/probe", "test", "Test"), access.NeedAnybody("server"), func(_ Request, ctx context.Context, _ *struct {
			Where string `query:"where"`
		}) (*NoParameters, error) {
			c := access.CallerOf(ctx)
			began <- c.User
			<-end
			return nil, nil
		})
		go func() {
			for user := range began {
				running[user]++
			}
		}()
		for _, one := range []struct{ user, target string }{
			{"eve", "/probe?where=a"}, {"eve", "/probe?where=b"}, {"eve", "/probe?where=c"}, {"eve", "/probe?where=d"}, {"eve", "/probe"}, {"bob", "/probe?where=a"},
		} {
			go r.Mux.ServeHTTP(httptest.NewRecorder(), userRequest(t, one.user, http.MethodGet, one.target, ""))
		}
		synctest.Wait()
		if running["eve"] != 3 || running["bob"] != 1 {
			t.Errorf("requests in progress %v, expected 3 of eve, of which 2 with a condition, and 1 of bob", running)
		}
		close(end)
		synctest.Wait()
		if running["eve"] != 5 {
			t.Errorf("%d requests of eve began, expected all 5", running["eve"])
		}
		close(began)
	})
}

// TestLargeBodiesOfOneUserWait sends requests with large bodies, and expects at most two of a user at a time.
func TestLargeBodiesOfOneUserWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRoutes(Options{View: view.New(view.Stores{}, view.Live{})})
		at := NewOperationSet(r, func(q Request) Request { return q })
		o := Post("probe", "/probe", "test", "Test")
		o.MaxBodyBytes = 4 << 20
		running, began, end := map[string]int{}, make(chan string), make(chan struct{})
		Handle(at, o, access.NeedAnybody("server"), func(_ Request, ctx context.Context, _ *struct{ Body struct{ A int } }) (*NoParameters, error) {
			c := access.CallerOf(ctx)
			began <- c.User
			<-end
			return nil, nil
		})
		go func() {
			for user := range began {
				running[user]++
			}
		}()
		late := httptest.NewRecorder()
		for _, user := range []string{"eve", "eve", "bob"} {
			go r.Mux.ServeHTTP(httptest.NewRecorder(), userRequest(t, user, http.MethodPost, "/probe", `{"A":1}`))
		}
		synctest.Wait()
		r.Mux.ServeHTTP(late, userRequest(t, "eve", http.MethodPost, "/probe", `{"A":1}`)) // waits as long as a body may take
		if running["eve"] != 2 || running["bob"] != 1 || late.Code != http.StatusServiceUnavailable {
			t.Errorf("requests in progress %v, the third of eve got %d", running, late.Code)
		}
		close(end)
		synctest.Wait()
		close(began)
	})
}

// TestBodiesWithManyValuesAreRefused decodes a body with very many values, and expects an error before its decoding.
func TestBodiesWithManyValuesAreRefused(t *testing.T) {
	names := `{"resources":[` + strings.TrimSuffix(strings.Repeat(`{"kind":"Check","namespace":"default","name":"web"},`, 10_000), ",") + `]}`
	var v any
	if err := unmarshalBody([]byte(names), &v); err != nil || !json.Valid([]byte(names)) {
		t.Errorf("10,000 names: %v", err)
	}
	v = nil
	for _, part := range []string{"{},", "1,", "[],", `{"a":`} {
		if err := unmarshalBody([]byte("["+strings.Repeat(part, maxBodyValues+1)+"1]"), &v); err == nil || !strings.Contains(err.Error(), "at most 50000 are allowed") || v != nil {
			t.Errorf("%s: %v %v", part, err, v)
		}
	}
}

// FuzzBody decodes random bodies of requests, and expects that none panics.
func FuzzBody(f *testing.F) {
	for _, text := range []string{`{"resources":[{"kind":"Check"}]}`, "[", `"\ud800"`, "1e999"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		var v any
		_ = unmarshalBody(data, &v)
	})
}
