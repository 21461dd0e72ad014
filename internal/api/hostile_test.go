package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/apitest"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// peak is the most memory that the heap takes while fn runs, above what it took before.
func peak(fn func()) int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before := int64(m.HeapInuse)
	var most atomic.Int64
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most.Store(max(most.Load(), int64(m.HeapInuse)))
			}
		}
	}()
	fn()
	close(done)
	<-stopped
	return most.Load() - before
}

// What a body costs follows what is kept of it, whatever is in it.
func TestHostileBodies(t *testing.T) {
	r := apitest.New(t)
	const mib = 1 << 20
	fill := func(unit string, size int) string { return strings.Repeat(unit, size/len(unit)) }
	list := func(items string) string { return `{"resources":[` + strings.TrimSuffix(items, ",") + `]}` }
	check := func(spec string) string {
		return `{"apiVersion":"muster/v1","kind":"Check","metadata":{"name":"x"},"spec":{` + spec + `}}`
	}
	for _, c := range []struct {
		name, body string
		status     int
		says       string
	}{
		{"very many resources", list(fill("{},", 16*mib)), 422, "resource 50:"},
		{"very many that are right", list(fill(check(`"interval":"60s","command":"x"`)+",", 4*mib)), 413, "more than 10000 resources"},
		{"one with very many values", list(check(`"interval":"60s","command":[` + strings.TrimSuffix(fill("1,", 16*mib), ",") + `]`)), 413, "at most 524288"},
		{"one with many values", list(check(`"interval":"60s","command":[` + strings.TrimSuffix(fill("1,", 500<<10), ",") + `]`)), 422, "values"},
		{"many unknown fields", list(check(`"interval":"60s","command":"x",` + strings.TrimSuffix(keys(30_000), ","))), 422, "nobody looked further"},
		{"deep", `{"resources":` + fill("[", 5*mib), 400, ""},
		{"deep within a resource", list(check(`"interval":"60s","command":` + fill("[", 200<<10))), 400, ""},
		{"deep and whole", list(check(`"interval":"60s","command":` + fill("[", 5000) + fill("]", 5000))), 422, "deep"},
		{"long names", list(fill(`{"kind":"`+strings.Repeat("x", 400<<10)+`"},`, 12*mib)), 422, ""},
		{"one long word", `{"message":"` + fill("x", 8*mib) + `","resources":[{}]}`, 422, ""},
		{"other fields without end", `{"resources":[{}],` + strings.TrimSuffix(keys(200_000), ",") + `}`, 422, "more than 20 fields"},
		{"twice", `{"resources":[{}],"resources":[{}]}`, 422, "twice"},
		{"no resources", `{"dryRun":true}`, 422, "resources"},
		{"no list", `{"resources":{}}`, 422, "list"},
		{"empty list", `{"resources":[]}`, 422, "resources"},
		{"wrong type", `{"resources":[{}],"dryRun":"yes"}`, 422, ""},
		{"long message", `{"resources":[` + check(`"interval":"60s","command":"x"`) + `],"message":"` + strings.Repeat("x", 1001) + `"}`, 422, "1000"},
		{"followed by something", list(check(`"interval":"60s","command":"x"`)) + "{}", 422, "follows"},
		{"nothing", "", 400, ""},
		{"too large", list(fill("{},", 33*mib)), 413, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var status int
			var body string
			began := time.Now()
			used := peak(func() { status, _, body = raw(t, r, "POST", "/api/v1/apply", r.Token, c.body, nil) })
			took := time.Since(began)
			if status != c.status || !strings.Contains(body, c.says) {
				t.Errorf("%d %.300s, want %d %q", status, body, c.status, c.says)
			}
			if !json.Valid([]byte(body)) || len(body) > 200<<10 {
				t.Errorf("answer of %d bytes", len(body))
			}
			t.Logf("%s, %d MiB above, answer of %d bytes", took.Round(time.Millisecond), used>>20, len(body))
			if used > 250<<20 || took > 20*time.Second {
				t.Errorf("%s, %d MiB for a body of %d MiB", took, used>>20, len(c.body)>>20)
			}
		})
	}
}

func keys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"k%d":1,`, i)
	}
	return b.String()
}

// A body of PUT may be YAML, with its aliases.
func TestHostileYAML(t *testing.T) {
	r := apitest.New(t)
	head := "apiVersion: muster/v1\nkind: Check\nmetadata: {name: x}\nspec:\n  interval: 60s\n  command: "
	var laughs strings.Builder
	laughs.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 20; i++ {
		fmt.Fprintf(&laughs, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), ", "))
	}
	size := 500 << 10
	fill := func(unit string) string { return strings.Repeat(unit, size/len(unit)) }
	for name, body := range map[string]string{
		"a billion laughs":   laughs.String() + "kind: Check\n",
		"an alias of itself": head + "&a [*a, *a]\n",
		"merges of merges":   "a: &a {k: v}\nb: &b {<<: [*a, *a, *a, *a]}\n" + fill("c: {<<: [*b, *b, *b, *b]}\n"),
		"deep flow":          head + fill("["),
		"deep mappings":      head + fill("{a: "),
		"deep lists":         head + "\n" + fill("- "),
		"many documents":     fill("---\n"),
		"many keys":          fill("? a\n: b\n"),
		"one long line":      head + fill("x"),
		"anchors":            fill("- &a x\n"),
		"quotes":             head + `"` + fill(`\x41`),
		"tags":               fill("- !!binary x\n"),
		"tabs":               fill("\t"),
		"zero bytes":         head + fill("\x00"),
		"bad UTF-8":          head + fill("\xff"),
		"UTF-16":             "\xff\xfe" + fill("k\x00:\x00 \x00"),
		"long number":        head + fill("9"),
		"exponent":           "apiVersion: muster/v1\nkind: Property\nmetadata: {name: x}\nspec:\n  value: 1e" + fill("9"),
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			var status int
			var answer string
			used := peak(func() { status, _, answer = raw(t, r, "PUT", "/api/v1/checks/default/x", r.Token, body, nil) })
			took := time.Since(began)
			t.Logf("%d, %s, %d MiB above, answer of %d bytes", status, took.Round(time.Millisecond), used>>20, len(answer))
			if status < 400 || status >= 500 || len(answer) > 200<<10 {
				t.Errorf("%d %.300s", status, answer)
			}
			if used > 150<<20 || took > 20*time.Second {
				t.Errorf("%s, %d MiB for a body of %d KiB", took, used>>20, len(body)>>10)
			}
		})
	}
}

// Who may only look sees no secret, in no page; what an administrator reads can be
// applied again.
func TestSecretsAreForThoseWhoMayWrite(t *testing.T) {
	r := apitest.New(t)
	ctx := t.Context()
	const yaml = `
{apiVersion: muster/v1, kind: Handler, metadata: {name: hook}, spec: {webhook: {url: "https://hooks.example/T0/s3cret", headers: {Authorization: "Bearer s3cret"}}}}
---
{apiVersion: muster/v1, kind: Handler, metadata: {name: pager}, spec: {command: page, env: {PAGER_KEY: s3cret}}}
---
{apiVersion: muster/v1, kind: Check, metadata: {name: db}, spec: {interval: 60s, command: check_db, env: {PGPASSWORD: s3cret}}}
`
	r.Apply(yaml)
	r.Apply(strings.ReplaceAll(yaml, "s3cret", "another-s3cret"))
	c := dial(t, r, r.Token)
	made, err := c.Access.CreateToken(ctx, v1.TokenRequest{Role: access.Viewer, Note: "dashboard"})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/api/v1/handlers", "/api/v1/handlers?state=true", "/api/v1/handlers/default/hook", "/api/v1/handlers/default/pager", "/api/v1/handlers/default/hook/state",
		"/api/v1/checks", "/api/v1/checks/default/db", "/api/v1/changes?limit=100", "/api/v1/status",
	} {
		status, _, text := raw(t, r, "GET", path, made.Secret, "", nil)
		if status != 200 || strings.Contains(text, "s3cret") {
			t.Errorf("%s as a viewer: %d %s", path, status, text)
		}
	}
	if _, _, text := raw(t, r, "GET", "/api/v1/handlers/default/hook", made.Secret, "", nil); !strings.Contains(text, `"https://hooks.example/(hidden)"`) {
		t.Errorf("a viewer sees not even where to: %s", text)
	}
	for _, path := range []string{"/api/v1/handlers/default/hook", "/api/v1/handlers/default/pager", "/api/v1/checks/default/db"} {
		_, _, text := raw(t, r, "GET", path, r.Token, "", nil)
		if !strings.Contains(text, "another-s3cret") {
			t.Errorf("%s as an administrator: %s", path, text)
		}
		done, err := c.Resources.Apply(ctx, v1.ApplyRequest{Resources: []json.RawMessage{json.RawMessage(text)}})
		if err != nil || done.Outcomes[0].Op != "unchanged" {
			t.Errorf("%s applied again: %+v %v", path, done, err)
		}
	}
	if _, _, text := raw(t, r, "GET", "/api/v1/changes?limit=100", r.Token, "", nil); !strings.Contains(text, "s3cret") {
		t.Errorf("an administrator does not see what was changed: %s", text)
	}
	// A viewer may preview an apply, and learns nothing by guessing.
	_, _, pager := raw(t, r, "GET", "/api/v1/handlers/default/pager", r.Token, "", nil)
	for _, guess := range []string{"another-s3cret", "a-wrong-one"} {
		plan := `{"dryRun":true,"owner":"o","prune":true,"resources":[` + strings.ReplaceAll(pager, "another-s3cret", guess) + `]}`
		status, _, text := raw(t, r, "POST", "/api/v1/apply", made.Secret, plan, nil)
		if status != 200 || strings.Contains(text, guess) || !strings.Contains(text, `"op":"updated"`) || !strings.Contains(text, "+  owner: o") {
			t.Errorf("a viewer's plan: %d %s", status, text)
		}
		plan = strings.Replace(plan, `"owner":"o","prune":true,`, "", 1)
		if status, _, text := raw(t, r, "POST", "/api/v1/apply", made.Secret, plan, nil); status != 200 || !strings.Contains(text, `"op":"unchanged"`) {
			t.Errorf("a viewer's plan of %s: %d %s", guess, status, text)
		}
		if status, _, text := raw(t, r, "POST", "/api/v1/apply", made.Secret, strings.Replace(plan, `"dryRun":true,`, "", 1), nil); status != 403 || !strings.Contains(text, "may look and not change") {
			t.Errorf("a viewer's apply: %d %s", status, text)
		}
	}
	_, _, seen := raw(t, r, "GET", "/api/v1/handlers/default/pager", made.Secret, "", nil)
	if status, _, text := raw(t, r, "PUT", "/api/v1/handlers/default/pager", r.Token, seen, nil); status != 422 || !strings.Contains(text, "PAGER_KEY") {
		t.Errorf("what was hidden was written over what it hid: %d %s", status, text)
	}
}

// Watches are bounded, each by its token and all together.
func TestWatchesAreBounded(t *testing.T) {
	r := apitest.New(t)
	open := func() (*http.Response, error) {
		request, _ := http.NewRequestWithContext(t.Context(), "GET", r.URL+"/api/v1/events/watch", nil)
		request.Header.Set("Authorization", "Bearer "+r.Token)
		return http.DefaultClient.Do(request)
	}
	var last *http.Response
	for i := range 33 {
		answer, err := open()
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if last = answer; answer.StatusCode != 200 && i < 32 {
			t.Fatalf("watch %d: %d", i, answer.StatusCode)
		}
	}
	if last.StatusCode != model.Limited.HTTP() {
		t.Errorf("the 33rd watch of a token: %d", last.StatusCode)
	}
}
