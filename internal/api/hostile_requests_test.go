package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/apitest"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/testenv"
)

// peakMemory returns the maximum growth of the heap in bytes while fn runs.
func peakMemory(fn func()) int64 {
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

// TestHostileJSONBodiesUseBoundedMemory sends huge or deeply nested JSON and expects an error within a limit of time
// and memory.
func TestHostileJSONBodiesUseBoundedMemory(t *testing.T) {
	r := apitest.NewServer(t)
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
		{"very many resources", list(fill("{},", 16*mib)), 413, "more than 10000 resources"},
		{"very many that are right", list(fill(check(`"interval":"60s","command":"x"`)+",", 4*mib)), 413, "more than 10000 resources"},
		{"one with very many values", list(check(`"interval":"60s","command":[` + strings.TrimSuffix(fill("1,", 16*mib), ",") + `]`)), 413, "524288"},
		{"one with many values", list(check(`"interval":"60s","command":[` + strings.TrimSuffix(fill("1,", 500<<10), ",") + `]`)), 422, "values"},
		{"many unknown fields", list(check(`"interval":"60s","command":"x",` + strings.TrimSuffix(bodyWithManyFields(30_000), ","))), 422, "perhaps more errors"},
		{"deep", `{"resources":` + fill("[", 5*mib), 400, ""},
		{"deep within a resource", list(check(`"interval":"60s","command":` + fill("[", 200<<10))), 400, ""},
		{"deep and whole", list(check(`"interval":"60s","command":` + fill("[", 5000) + fill("]", 5000))), 422, "deep"},
		{"many wrong ones", list(strings.Repeat("{},", 9000)), 422, "resource 50:"},
		{"long names", list(fill(`{"kind":"`+strings.Repeat("x", 400<<10)+`"},`, 12*mib)), 422, ""},
		{"one long word", `{"message":"` + fill("x", 8*mib) + `","resources":[{}]}`, 422, ""},
		{"other fields without end", `{"resources":[{}],` + strings.TrimSuffix(bodyWithManyFields(200_000), ",") + `}`, 422, "more than 20 fields"},
		{"twice", `{"resources":[{}],"resources":[{}]}`, 422, "twice"},
		{"no resources", `{"dryRun":true}`, 422, "resources"},
		{"no list", `{"resources":{}}`, 422, "list"},
		{"empty list", `{"resources":[]}`, 422, "resources"},
		{"wrong type", `{"resources":[{}],"dryRun":"yes"}`, 422, ""},
		{"long message", `{"resources":[` + check(`"interval":"60s","command":"x"`) + `],"message":"` + strings.Repeat("x", 1001) + `"}`, 422, "1000"},
		{"followed by something", list(check(`"interval":"60s","command":"x"`)) + "{}", 422, "unexpected text after"},
		{"nothing", "", 400, ""},
		{"too large", list(fill("{},", 33*mib)), 413, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var status int
			var body string
			began := time.Now()
			used := peakMemory(func() { status, _, body = sendRequest(t, r, "POST", "/api/v1/apply", r.Token, c.body, nil) })
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

// TestHostileListsOfNamesUseBoundedMemory sends deletions and retirements with very many values, and expects errors within a
// limit of memory. The greatest allowed list of names is decoded.
func TestHostileListsOfNamesUseBoundedMemory(t *testing.T) {
	r := apitest.NewServer(t)
	const mib = 1 << 20
	for path, list := range map[string]string{"/api/v1/delete": "resources", "/api/v1/retire": "nodes"} {
		body := func(unit string, size int) string {
			return `{"` + list + `":[` + strings.TrimSuffix(strings.Repeat(unit, size/len(unit)), ",") + `]}`
		}
		long := func(i int) string {
			return fmt.Sprintf(`{"kind":"Node","namespace":"default","name":"%d-%s"},`, i, strings.Repeat("x", 240))
		}
		var names strings.Builder
		for i := range 10_000 {
			names.WriteString(long(i))
		}
		whole := body(names.String(), names.Len())
		if list == "nodes" {
			whole = strings.ReplaceAll(whole, `"kind":"Node",`, "")
		}
		for _, c := range []struct {
			name, body string
			status     int
			says       string
		}{
			{"empty objects", body("{},", 4*mib-100), 400, "at most 50000 are allowed"},
			{"numbers", body("1,", 4*mib-100), 400, "at most 50000 are allowed"},
			{"nested", `{"` + list + `":` + strings.Repeat("[", 4*mib-100), 400, "at most 50000 are allowed"},
			{"too large", body("{},", 5*mib), 413, ""},
			{"too many", body(`{"kind":"Node","name":"x"},`, 10_001*27), 422, "10000"},
			{"long names", whole, 404, "does not exist"},
		} {
			var status int
			var answer string
			used := peakMemory(func() { status, _, answer = sendRequest(t, r, "POST", path, r.Token, c.body, nil) })
			if status != c.status || !strings.Contains(answer, c.says) {
				t.Errorf("%s %s: %d %.300s, want %d %q", path, c.name, status, answer, c.status, c.says)
			}
			if t.Logf("%s %s: %d MiB above", path, c.name, used>>20); used > 64*mib {
				t.Errorf("%s %s: %d MiB for a body of %d KiB", path, c.name, used>>20, len(c.body)>>10)
			}
		}
	}
}

// TestResourcesNamedWatchAreLimited fills a user's places for requests, and expects a refused request for a resource named
// watch.
func TestResourcesNamedWatchAreLimited(t *testing.T) {
	r := apitest.NewServer(t)
	viewer, _, err := r.Access.CreateToken(t.Context(), intent.Actor{User: "server"}, access.AccessToken{User: "eve", Grants: access.Grants{Role: access.Viewer}})
	testenv.NoError(t, err)
	assertAnswer(t, r, 404, "does not exist", "GET", "/api/v1/checks/default/watch", viewer, "", nil)
	if status := <-slowRequests(t, r, 200, "/api/v1/me/password", viewer); status != 503 {
		t.Errorf("one slow request of two hundred is refused: %d", status)
	}
	assertAnswer(t, r, 503, "limit of concurrent requests", "GET", "/api/v1/checks/default/watch", viewer, "", nil)
}

// bodyWithManyFields returns the beginning of a JSON object with n fields.
func bodyWithManyFields(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"k%d":1,`, i)
	}
	return b.String()
}

// TestHostileYAMLBodiesUseBoundedMemory sends alias bombs, deep nesting and long texts in YAML, and expects errors.
// Time and memory must stay within limits.
func TestHostileYAMLBodiesUseBoundedMemory(t *testing.T) {
	r := apitest.NewServer(t)
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
			used := peakMemory(func() { status, _, answer = sendRequest(t, r, "PUT", "/api/v1/checks/default/x", r.Token, body, nil) })
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

// TestViewerReadsNoSecrets calls the API as a viewer and expects no secret in any answer. A resource that an
// administrator reads can be applied again.
func TestViewerReadsNoSecrets(t *testing.T) {
	r := apitest.NewServer(t)
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
	c := newTestClient(t, r, r.Token)
	made, err := c.Access.CreateToken(ctx, v1.TokenRequest{Role: access.Viewer, Note: "dashboard"})
	testenv.NoError(t, err)
	for _, path := range []string{
		"/api/v1/handlers", "/api/v1/handlers?state=true", "/api/v1/handlers/default/hook", "/api/v1/handlers/default/pager", "/api/v1/handlers/default/hook/state",
		"/api/v1/checks", "/api/v1/checks/default/db", "/api/v1/changes?limit=100", "/api/v1/status",
	} {
		status, _, text := sendRequest(t, r, "GET", path, made.Secret, "", nil)
		if status != 200 || strings.Contains(text, "s3cret") {
			t.Errorf("%s as a viewer: %d %s", path, status, text)
		}
	}
	if _, _, text := sendRequest(t, r, "GET", "/api/v1/handlers/default/hook", made.Secret, "", nil); !strings.Contains(text, `"https://hooks.example/(hidden)"`) {
		t.Errorf("the handler that a viewer sees lacks its address: %s", text)
	}
	for _, path := range []string{"/api/v1/handlers/default/hook", "/api/v1/handlers/default/pager", "/api/v1/checks/default/db"} {
		_, _, text := sendRequest(t, r, "GET", path, r.Token, "", nil)
		if !strings.Contains(text, "another-s3cret") {
			t.Errorf("%s as an administrator: %s", path, text)
		}
		done, err := c.Resources.Apply(ctx, v1.ApplyRequest{Resources: []json.RawMessage{json.RawMessage(text)}})
		if err != nil || done.Outcomes[0].Op != "unchanged" {
			t.Errorf("%s applied again: %+v %v", path, done, err)
		}
	}
	if _, _, text := sendRequest(t, r, "GET", "/api/v1/changes?limit=100", r.Token, "", nil); !strings.Contains(text, "s3cret") {
		t.Errorf("the plan of an administrator lacks the changed secret: %s", text)
	}
	// The dry run of a viewer does not reveal whether a guessed secret is right.
	_, _, pager := sendRequest(t, r, "GET", "/api/v1/handlers/default/pager", r.Token, "", nil)
	for _, guess := range []string{"another-s3cret", "a-wrong-one"} {
		plan := `{"dryRun":true,"owner":"o","prune":true,"resources":[` + strings.ReplaceAll(pager, "another-s3cret", guess) + `]}`
		status, _, text := sendRequest(t, r, "POST", "/api/v1/apply", made.Secret, plan, nil)
		if status != 200 || strings.Contains(text, guess) || !strings.Contains(text, `"op":"updated"`) || !strings.Contains(text, "+  owner: o") {
			t.Errorf("a viewer's plan: %d %s", status, text)
		}
		plan = strings.Replace(plan, `"owner":"o","prune":true,`, "", 1)
		assertAnswer(t, r, 200, `"op":"unchanged"`, "POST", "/api/v1/apply", made.Secret, plan, nil)
		assertAnswer(t, r, 403, "may only read", "POST", "/api/v1/apply", made.Secret, strings.Replace(plan, `"dryRun":true,`, "", 1), nil)
	}
	// Neither does the preview of a prune, whose resources the request does not name.
	r.Apply(strings.ReplaceAll(strings.ReplaceAll(yaml, "s3cret", "another-s3cret"), "metadata: {", "metadata: {owner: o, "))
	r.Apply("{kind: Namespace, metadata: {name: mine}}")
	both, err := c.Access.CreateToken(ctx, v1.TokenRequest{Bindings: map[string]string{"default": access.Viewer, "mine": access.Admin}})
	testenv.NoError(t, err)
	for _, token := range []string{made.Secret, both.Secret} {
		for _, list := range []string{``, `{"kind":"Check","metadata":{"name":"x","namespace":"mine"},"spec":{"interval":"60s","command":"true"}}`} {
			status, _, text := sendRequest(t, r, "POST", "/api/v1/apply", token, `{"dryRun":true,"owner":"o","prune":true,"allowEmpty":true,"resources":[`+list+`]}`, nil)
			if status != 200 || strings.Contains(text, "s3cret") || !strings.Contains(text, "PAGER_KEY: (hidden)") {
				t.Errorf("the preview of a prune: %d %s", status, text)
			}
		}
	}
	_, _, seen := sendRequest(t, r, "GET", "/api/v1/handlers/default/pager", made.Secret, "", nil)
	assertAnswer(t, r, 422, "PAGER_KEY", "PUT", "/api/v1/handlers/default/pager", r.Token, seen, nil)
}

// TestUserGetsAtMostAQuarterOfWatches opens watches with several tokens of one user, and expects at most a quarter of all
// watches.
func TestUserGetsAtMostAQuarterOfWatches(t *testing.T) {
	r := apitest.NewServer(t)
	c := newTestClient(t, r, r.Token)
	tokens := []string{r.Token}
	for range 3 {
		tokens = append(tokens, testenv.Value(c.Access.CreateToken(t.Context(), v1.TokenRequest{User: "dashboard"}))(t).Secret)
	}
	open := func(token string) int {
		request, _ := http.NewRequestWithContext(t.Context(), "GET", r.URL+"/api/v1/events/watch", nil)
		request.Header.Set("Authorization", "Bearer "+token)
		answer := testenv.Value(http.DefaultClient.Do(request))(t)
		t.Cleanup(func() { answer.Body.Close() })
		return answer.StatusCode
	}
	for i := range 64 {
		if status := open(tokens[i%len(tokens)]); status != 200 {
			t.Fatalf("watch %d: %d", i, status)
		}
	}
	for _, token := range tokens {
		if status := open(token); status != model.Limited.HTTP() {
			t.Errorf("the 65th watch of a user: %d", status)
		}
	}
	// The limit comes before the work for the filter, whose errors come after it.
	assertAnswer(t, r, model.Limited.HTTP(), "limit of open watches", "GET", "/api/v1/events/watch?where=nonsense", r.Token, "", nil)
	other, _, err := r.Access.CreateToken(t.Context(), intent.Actor{User: "server"}, access.AccessToken{User: "eve", Grants: access.Grants{Role: access.Viewer}})
	testenv.NoError(t, err)
	if status := open(other); status != 200 {
		t.Errorf("the first watch of another user: %d", status)
	}
	assertAnswer(t, r, 422, "undeclared reference", "GET", "/api/v1/events/watch?where=nonsense", other, "", nil)
}

// slowRequests sends the headers of requests without ever sending the bodies. It returns the HTTP statuses of the
// answers.
func slowRequests(t *testing.T, r *apitest.Server, n int, path, token string) <-chan int {
	t.Helper()
	statuses := make(chan int, n)
	client := &http.Client{Transport: &http.Transport{}}
	ctx, cancel := context.WithCancel(t.Context())
	var sending sync.WaitGroup
	t.Cleanup(func() { cancel(); sending.Wait(); client.CloseIdleConnections() })
	for range n {
		body, never := io.Pipe()
		context.AfterFunc(ctx, func() { never.Close() })
		sending.Go(func() {
			request, _ := http.NewRequestWithContext(ctx, "POST", r.URL+path, body)
			request.Header.Set("Authorization", "Bearer "+token)
			if answer, err := client.Do(request); err == nil {
				answer.Body.Close()
				statuses <- answer.StatusCode
			}
		})
	}
	return statuses
}

// TestSlowBodiesDelayNobodyElse sends slow apply bodies as one user, and expects applies of other users to succeed.
// The excess requests of the slow user are refused.
func TestSlowBodiesDelayNobodyElse(t *testing.T) {
	r := apitest.NewServer(t)
	viewer, _, err := r.Access.CreateToken(t.Context(), intent.Actor{User: "server"}, access.AccessToken{User: "eve", Grants: access.Grants{Role: access.Viewer}})
	testenv.NoError(t, err)
	admin, _, err := r.Access.CreateToken(t.Context(), intent.Actor{User: "server"}, access.AccessToken{User: "mallory", Grants: access.Grants{Role: access.Admin}})
	testenv.NoError(t, err)
	const apply = `{"resources":[{"apiVersion":"muster/v1","kind":"Property","metadata":{"name":"x"},"spec":{"value":1}}]}`
	for _, token := range []string{viewer, admin} {
		if status := <-slowRequests(t, r, 20, "/api/v1/apply", token); status != 503 {
			t.Errorf("one slow apply of twenty is refused: %d", status)
		}
		assertAnswer(t, r, 200, "", "POST", "/api/v1/apply", r.Token, apply, nil)
	}
	if status := <-slowRequests(t, r, 200, "/api/v1/me/password", viewer); status != 503 {
		t.Errorf("one slow request of two hundred is refused: %d", status)
	}
	assertAnswer(t, r, 200, "", "GET", "/api/v1/kinds", r.Token, "", nil)
	assertAnswer(t, r, 503, "limit of concurrent requests", "GET", "/api/v1/kinds", viewer, "", nil)
}

// TestNumbersOutOfRangeAreRefused sends numbers out of range in requests and expects client errors (4xx), no server
// errors.
func TestNumbersOutOfRangeAreRefused(t *testing.T) {
	r := apitest.NewServer(t)
	for _, number := range []string{"-1", "1.5", "1e300", "9223372036854775808", "99999999999999999999999"} {
		for path, body := range map[string]string{
			"/api/v1/apply":  `{"resources":[{"apiVersion":"muster/v1","kind":"Property","metadata":{"name":"x"},"spec":{"value":1}}],"maxAffected":%s}`,
			"/api/v1/delete": `{"resources":[{"kind":"Property","name":"x"}],"maxAffected":%s}`, "/api/v1/retire": `{"nodes":[{"name":"x"}],"maxAffected":%s}`,
			"/api/v1/tokens": `{"expiresInSeconds":%s}`, "/api/v1/jointokens": `{"maxUses":%s}`, "/api/v1/runs": `{"command":["true"],"maxAffected":%s}`,
		} {
			if status, _, text := sendRequest(t, r, "POST", path, r.Token, fmt.Sprintf(body, number), nil); status != 422 && status != 400 {
				t.Errorf("%s %s: %d %s", path, number, status, text)
			}
		}
		if status, _, text := sendRequest(t, r, "DELETE", "/api/v1/properties/default/x?maxAffected="+number, r.Token, "", nil); status != 422 && status != 400 {
			t.Errorf("DELETE %s: %d %s", number, status, text)
		}
	}
}

// TestResourcesAreCountedBeforeDecoding sends an apply with too many resources, and expects a refusal before any resource is
// decoded.
func TestResourcesAreCountedBeforeDecoding(t *testing.T) {
	r := apitest.NewServer(t)
	body := `{"resources":[` + strings.Repeat(`{"kind":"None"},`, 10_001) + `{}]}`
	assertAnswer(t, r, 413, "more than 10000 resources", "POST", "/api/v1/apply", r.Token, body, nil)
}

// FuzzRequest sends random requests as an administrator, and expects no internal server error. Each error must be JSON
// as in RFC 9457.
func FuzzRequest(f *testing.F) {
	r := apitest.NewServer(f)
	r.DeclareNodes("default", map[string]string{"env": "prod"}, "web01", "web02")
	r.Apply(`{apiVersion: muster/v1, kind: Check, metadata: {name: disk}, spec: {interval: 60s, command: check_disk, targets: {groups: [all]}}}`)
	r.RecordResult("default", "web01", "disk", model.Critical, "DISK CRITICAL: / is full")
	const applied = `{"resources":[{"apiVersion":"muster/v1","kind":"Check","metadata":{"name":"x"},"spec":{"interval":"60s","command":"true","targets":{"where":"node.labels.env == 'prod'"}}}],"dryRun":true,"message":"m"}`
	for _, seed := range [][4]string{
		{"GET", "/api/v1/events?limit=1&where=event.status%3D%3DCRITICAL&status=CRITICAL&after=AA", "", ""},
		{"GET", "/api/v1/namespaces/default/events/web01/disk/history?limit=5", "", ""},
		{"GET", "/api/v1/problems?open=true&after=AAAAAAAAAAA", "", ""}, {"GET", "/api/v1/changes?kind=Check&after=x", "", ""},
		{"GET", "/api/v1/nodestates?selector=env%3Dprod&limit=0", "", ""}, {"GET", "/api/v1/status?namespace=none", "", ""},
		{"POST", "/api/v1/apply", applied, ""}, {"POST", "/api/v1/apply", applied[:80], ""}, {"POST", "/api/v1/jointokens", `{"namespace":"default","groups":["a"],"maxUses":-1}`, ""},
		{"PUT", "/api/v1/namespaces/default/checks/disk?dryRun=true", applied[14:160], `W/"0000000000000000-1"`},
		{"DELETE", "/api/v1/namespaces/default/checks/disk?dryRun=1", "", `"57"`}, {"POST", "/api/v1/tokens", `{"user":"admin","role":"viewer"}`, ""},
		{"GET", "/api/v1/kinds", "", ""}, {"BREW", "/", "", ""},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	listed := documentedStatuses(f, r)
	f.Fuzz(func(t *testing.T, method, target, body, etag string) {
		q, err := http.NewRequest(method, "https://muster.example"+target, strings.NewReader(body))
		if err != nil || !strings.HasPrefix(target, "/") || strings.Contains(q.URL.Path, "watch") || strings.Contains(q.URL.Path, "logout") {
			return // skips invalid requests, streams without end, and the logout
		}
		q.Header = http.Header{"Authorization": {"Bearer " + r.Token}, "Content-Type": {"application/json"}}
		if etag != "" {
			q.Header.Set("If-Match", etag)
		}
		q.RemoteAddr = "192.0.2.1:4711"
		w := httptest.NewRecorder()
		r.Handler.ServeHTTP(w, q)
		var said struct {
			Status int
			Title  string
		}
		switch {
		case w.Code >= 500 || w.Code == http.StatusUnauthorized && q.URL.Path != "/api/v1/login":
			t.Fatalf("%s %s: %d %s", method, target, w.Code, w.Body)
		case w.Code >= 400 && (json.Unmarshal(w.Body.Bytes(), &said) != nil || said.Status != w.Code || said.Title == ""):
			t.Fatalf("%s %s: %d in another form: %s", method, target, w.Code, w.Body)
		case w.Code > 400 && listed(q) != nil && !slices.Contains(listed(q), strconv.Itoa(w.Code)):
			t.Fatalf("%s %s: %d, the page says %v: %s", method, target, w.Code, listed(q), w.Body)
		}
	})
}

// newServerWithReplacedProblem returns a test server on which a newer problem replaces an event's problem just
// before an action. Before an action on it is written, the problem closes and another one opens; problem
// returns the open one.
func newServerWithReplacedProblem(t *testing.T) (r *apitest.Server, problem func() *model.Problem) {
	r = apitest.NewServer(t)
	r.Apply("kind: Check\nmetadata: {name: disk}\nspec: {command: check_disk, interval: 1m, targets: {nodes: [web01]}}\n")
	r.DeclareNodes("default", nil, "web01")
	r.RecordResult("default", "web01", "disk", model.Critical, "full")
	node, _ := r.Directory.NodeByName("default", "web01")
	check, _ := r.Directory.CheckByName("default", "disk")
	r.BeforeAction = func() {
		r.RecordResult("default", "web01", "disk", model.OK, "fine")
		r.RecordResult("default", "web01", "disk", model.Critical, "full again")
	}
	return r, func() *model.Problem {
		s, _ := r.View.Get(node, model.CheckSource(check))
		if s.Problem == nil {
			return &model.Problem{}
		}
		return s.Problem
	}
}

// TestBulkActionAppliesToSelectedProblems replaces a problem by a newer one during a bulk action, and expects the
// newer problem unchanged.
func TestBulkActionAppliesToSelectedProblems(t *testing.T) {
	for _, verb := range []string{"acknowledge", "resolve"} {
		r, problem := newServerWithReplacedProblem(t)
		was := problem().ID
		status, _, text := sendRequest(t, r, "POST", "/api/v1/events/"+verb, r.Token, `{"namespace":"default","check":"disk","note":"known"}`, map[string]string{"Content-Type": "application/json"})
		if status != 200 {
			t.Fatal(status, text)
		}
		if is := problem(); is.ID == "" || is.ID == was || is.Ack != nil {
			t.Errorf("%s of problem %s changed another problem: %+v", verb, was, is)
		}
		var out v1.BulkDone
		testenv.NoError(t, json.Unmarshal([]byte(text), &out))
		if len(out.First) != 1 || out.First[0].Source.Name != "disk" || out.First[0].Source.ID == 0 {
			t.Errorf("%s selected %+v", verb, out.First)
		}
		want := map[string]int{"acknowledge": 0, "resolve": 1}[verb] // resolving a closed problem has succeeded, whoever closed it
		if out.Done != want || len(out.Skipped) != 1-want || len(out.Skipped) == 1 && (out.Skipped[0].Failed || out.Skipped[0].Count != 1) {
			t.Errorf("%s: %s", verb, text)
		}
	}
}

// TestAcknowledgementOfClosedProblemConflicts acknowledges a problem that a result closes at the same time and
// expects a conflict
func TestAcknowledgementOfClosedProblemConflicts(t *testing.T) {
	r, _ := newServerWithReplacedProblem(t)
	r.BeforeAction = func() { r.RecordResult("default", "web01", "disk", model.OK, "fine") }
	status, _, text := sendRequest(t, r, "POST", "/api/v1/events/default/web01/disk/acknowledge", r.Token, `{"note":"known"}`, map[string]string{"Content-Type": "application/json"})
	if status != http.StatusConflict {
		t.Error(status, text)
	}
}

// TestCallbackAppliesToTheNotifiedProblem sends Opsgenie's callback about an already closed problem, and
// expects the event's newer problem unchanged.
func TestCallbackAppliesToTheNotifiedProblem(t *testing.T) {
	for _, verb := range []string{"Acknowledge", "Close"} {
		r, problem := newServerWithReplacedProblem(t)
		r.Apply("kind: Handler\nmetadata: {name: pager}\nspec: {opsgenie: {apiKey: k, callback: 0123456789abcdef0123}}\n")
		was := *problem()
		if err := r.History.Record(t.Context(), history.Batch{Opened: []history.Problem{{Problem: was, Namespace: "default", Node: "web01", SourceName: "disk"}},
			Deliveries: []history.Delivery{{Key: "told", Problem: was.ID, Handler: history.HandlerRef{Namespace: "default", Name: "pager"}, Kind: "opened", Payload: []byte("{}"), Created: r.Now()}}}); err != nil {
			t.Fatal(err)
		}
		ask, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL+"/callback/default/pager", strings.NewReader(`{"action":"`+verb+`","alert":{"alias":"`+was.ID+`","username":"ada"}}`))
		testenv.NoError(t, err)
		ask.Header.Set("Authorization", "Bearer 0123456789abcdef0123")
		answer, err := http.DefaultClient.Do(ask)
		testenv.NoError(t, err)
		text, _ := io.ReadAll(answer.Body)
		if answer.Body.Close(); answer.StatusCode != 200 {
			t.Fatal(answer.StatusCode, string(text))
		}
		if is := problem(); is.ID == "" || is.ID == was.ID || is.Ack != nil {
			t.Errorf("%s of problem %s changed another problem: %+v", verb, was.ID, is)
		}
	}
}

// TestApplyRefusesUnexpectedRevisions applies resources with expected revisions, of which one is wrong, and expects
// no change at all
func TestApplyRefusesUnexpectedRevisions(t *testing.T) {
	r := apitest.NewServer(t)
	c, ctx := newTestClient(t, r, r.Token), context.Background()
	check := func(name, interval string) json.RawMessage {
		const text = `{"apiVersion":"muster/v1","kind":"Check","metadata":{"name":"NAME"},"spec":{"targets":{"groups":["all"]},"interval":"EVERY","command":"true"}}`
		return json.RawMessage(strings.NewReplacer("NAME", name, "EVERY", interval).Replace(text))
	}
	done, err := c.Resources.Apply(ctx, v1.ApplyRequest{Resources: []json.RawMessage{check("disk", "60s")}})
	testenv.NoError(t, err)
	is := done.Outcomes[0].Revision
	seen := func(name string, revision int64) v1.Expected {
		return v1.Expected{Ref: v1.Ref{Kind: "Check", Namespace: "default", Name: name}, Revision: revision}
	}
	for _, o := range []struct {
		expect []v1.Expected
		class  model.Class
	}{
		{[]v1.Expected{seen("disk", is-1)}, model.Stale},
		{[]v1.Expected{seen("disk", 0)}, model.Stale},
		{[]v1.Expected{seen("disk", is), seen("fresh", is)}, model.Stale},
		{[]v1.Expected{seen("disk", is), seen("other", is)}, model.Invalid},
		{[]v1.Expected{{Ref: v1.Ref{Kind: "Chek", Name: "disk"}}}, model.Invalid},
		{[]v1.Expected{seen("disk", -1)}, model.Invalid},
	} {
		_, err := c.Resources.Apply(ctx, v1.ApplyRequest{Resources: []json.RawMessage{check("disk", "30s"), check("fresh", "30s")}, Expect: o.expect})
		if model.ClassOf(err) != o.class {
			t.Errorf("%+v: %v, want class %v", o.expect, err, o.class)
		}
	}
	k := kind.Check().KindInfo
	if _, _, err := c.Resources.Get(ctx, k, "default", "fresh"); model.ClassOf(err) != model.NotFound {
		t.Errorf("a refused apply created a resource: %v", err)
	}
	done, err = c.Resources.Apply(ctx, v1.ApplyRequest{Resources: []json.RawMessage{check("disk", "30s"), check("fresh", "30s")},
		Expect: []v1.Expected{seen("disk", is), seen("fresh", 0)}})
	if err != nil || len(done.Outcomes) != 2 {
		t.Errorf("apply with the right revision: %+v %v", done, err)
	}
}
