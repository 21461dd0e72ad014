package promapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/op"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/model"
)

// now is the time of the server in the tests.
var now = time.Unix(3600, 0).UTC()

// serveSeries returns an HTTP handler of the API for a caller with the given grants. The API reads a series store of
// the test.
func serveSeries(store storage.Queryable, o Options, grants access.Grants) http.Handler {
	r := op.NewRoutes(op.Options{View: view.New(view.Stores{Series: store, Directory: namespaceDirectory{}, Now: func() time.Time { return now }}, view.Live{})})
	Register(r, o)
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.Mux.ServeHTTP(w, q.WithContext(access.WithCaller(q.Context(), access.Caller{Subject: access.Subject{User: "ada", Grants: grants}})))
	})
}

// namespaceDirectory is a directory of namespaces for tests, without nodes.
type namespaceDirectory struct{ view.Directory }

// NamespaceByName returns the id of a namespace by its name.
func (namespaceDirectory) NamespaceByName(name string) (model.NamespaceID, bool) {
	return 1, name == "a" || name == "b"
}

// Nodes returns no nodes, because the tests need only namespaces.
func (namespaceDirectory) Nodes(string) []model.NodeID { return nil }

// answer is a decoded answer of Prometheus' API in a test.
type answer struct {
	Status    string          `json:"status"`
	Data      json.RawMessage `json:"data"`
	ErrorType string          `json:"errorType"`
	Error     string          `json:"error"`
	Warnings  []string        `json:"warnings"`
	Infos     []string        `json:"infos"`
}

// post sends the parameters to the tested API as a POST form, and returns the decoded answer.
func post(t testing.TB, h http.Handler, path string, form url.Values) (a answer, status int) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, Prefix+"/api/v1/"+path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return send(t, h, r)
}

// get sends the parameters to the tested API in the URL by GET, and returns the decoded answer.
func get(t testing.TB, h http.Handler, path string, form url.Values) (a answer, status int) {
	t.Helper()
	return send(t, h, httptest.NewRequest(http.MethodGet, Prefix+"/api/v1/"+path+"?"+form.Encode(), nil))
}

// send sends an HTTP request to the tested API and decodes the answer.
func send(t testing.TB, h http.Handler, r *http.Request) (a answer, status int) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatalf("%s %s: answer %q: %v", r.Method, r.URL, w.Body, err)
	}
	return a, w.Code
}

// httpEngine is a PromQL engine for Prometheus' test cases, and sends each query to the tested HTTP API. So
// Prometheus' own test cases test the API.
type httpEngine struct {
	t     testing.TB
	local *promql.Engine
	asked *int
}

// NewInstantQuery returns an instant query that the API evaluates.
func (e httpEngine) NewInstantQuery(ctx context.Context, q storage.Queryable, o promql.QueryOpts, text string, at time.Time) (promql.Query, error) {
	local, err := e.local.NewInstantQuery(ctx, q, o, text, at)
	return &httpQuery{Query: local, e: e, store: q, path: "query", form: url.Values{"query": {text}, "time": {secondsOf(at)}}}, err
}

// NewRangeQuery returns a range query that the API evaluates.
func (e httpEngine) NewRangeQuery(ctx context.Context, q storage.Queryable, o promql.QueryOpts, text string, start, end time.Time, step time.Duration) (promql.Query, error) {
	local, err := e.local.NewRangeQuery(ctx, q, o, text, start, end, step)
	return &httpQuery{Query: local, e: e, store: q, path: "query_range", form: url.Values{
		"query": {text}, "start": {secondsOf(start)}, "end": {secondsOf(end)}, "step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)},
	}}, err
}

// secondsOf formats a time as Unix seconds, as the API expects.
func secondsOf(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', -1, 64)
}

// httpQuery is one PromQL query that a test sends to the HTTP API.
type httpQuery struct {
	promql.Query
	e     httpEngine
	store storage.Queryable
	path  string
	form  url.Values
}

// Exec sends the query to the API and returns the decoded result. JSON does not have the whole of a native histogram,
// and Muster keeps none: results with histograms are those of the engine.
func (q *httpQuery) Exec(ctx context.Context) *promql.Result {
	h := serveSeries(q.store, Options{Engine: q.e.local, Parser: parser.NewParser(promqltest.TestParserOpts)}, access.Grants{Role: access.Viewer})
	a, status := post(q.e.t, h, q.path, q.form)
	*q.e.asked++
	if (a.Status == "success") != (status == http.StatusOK) {
		q.e.t.Errorf("%v: status %d, answer %s", q.form, status, a.Status)
	}
	if a.Status != "success" {
		return &promql.Result{Err: errors.New(a.Error)}
	}
	if strings.Contains(string(a.Data), `"histogram`) {
		return q.Query.Exec(ctx)
	}
	value, err := readValue(a.Data)
	warnings := annotations.Annotations{}
	for _, text := range a.Warnings {
		warnings.Add(fmt.Errorf("%w%s", annotations.PromQLWarning, strings.TrimPrefix(text, annotations.PromQLWarning.Error())))
	}
	for _, text := range a.Infos {
		warnings.Add(fmt.Errorf("%w%s", annotations.PromQLInfo, strings.TrimPrefix(text, annotations.PromQLInfo.Error())))
	}
	return &promql.Result{Value: value, Err: err, Warnings: warnings}
}

// point is a time and a value in the JSON form of the API.
type point [2]any

// float returns the time and the value of a point as numbers.
func (p point) float() (ms int64, value float64, err error) {
	seconds, _ := p[0].(float64)
	text, _ := p[1].(string)
	value, err = strconv.ParseFloat(text, 64)
	return int64(seconds*1000 + 0.5*sign(seconds)), value, err
}

// sign returns -1 for negative numbers and 1 for all other numbers, zero included.
func sign(x float64) float64 {
	if x < 0 {
		return -1
	}
	return 1
}

// readValue decodes the series or value in the answer to a query.
func readValue(data []byte) (parser.Value, error) {
	var d struct {
		ResultType parser.ValueType
		Result     json.RawMessage
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, err
	}
	var one point
	var rows []struct {
		Metric map[string]string
		Value  point
		Values []point
	}
	switch d.ResultType {
	case parser.ValueTypeScalar, parser.ValueTypeString:
		if err := json.Unmarshal(d.Result, &one); err != nil {
			return nil, err
		}
		if d.ResultType == parser.ValueTypeString {
			return promql.String{V: one[1].(string)}, nil
		}
		ms, v, err := one.float()
		return promql.Scalar{T: ms, V: v}, err
	}
	if err := json.Unmarshal(d.Result, &rows); err != nil {
		return nil, err
	}
	vector, matrix := promql.Vector{}, promql.Matrix{}
	for _, row := range rows {
		series := promql.Series{Metric: labels.FromMap(row.Metric)}
		if d.ResultType == parser.ValueTypeVector {
			row.Values = []point{row.Value}
		}
		for _, p := range row.Values {
			ms, v, err := p.float()
			if err != nil {
				return nil, err
			}
			series.Floats = append(series.Floats, promql.FPoint{T: ms, F: v})
			vector = append(vector, promql.Sample{Metric: series.Metric, T: ms, F: v})
		}
		matrix = append(matrix, series)
	}
	if d.ResultType == parser.ValueTypeVector {
		return vector, nil
	}
	return matrix, nil
}

// TestPrometheusCases runs the test cases of Prometheus' own engine through the API, and expects the same results.
func TestPrometheusCases(t *testing.T) {
	asked := 0
	e := httpEngine{t, promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery), &asked}
	promqltest.RunBuiltinTests(t, e)
	if asked < 1000 {
		t.Errorf("%d queries: the cases did not reach the API", asked)
	}
}

// twoNamespaces has the same metric in namespaces a and b, and series without a namespace.
const twoNamespaces = `
load 1m
  load{namespace="a",node="n1",item="load[all]"} 1+1x120
  load{namespace="b",node="secret1",item="secretitem"} 1000+1x120
  secretmetric{namespace="b",node="secret2",secretlabel="secretvalue"} 1000+1x120
  nowhere{node="secret3"} 1000x120
`

// TestQueriesReadOnlyPermittedNamespaces queries series outside the namespaces that a caller may read, and expects no
// data. The caller has a role in namespace a; the queries ask for namespace b and for series without a namespace.
func TestQueriesReadOnlyPermittedNamespaces(t *testing.T) {
	store := promqltest.LoadedStorage(t, twoNamespaces)
	h := serveSeries(store, Options{}, access.Grants{Bindings: map[string]string{"a": access.Viewer}})
	for _, query := range []string{
		`load`, `{__name__=~".+"}`, `{namespace="b"}`, `{namespace=~"a|b"}`, `{namespace=~".*"}`, `{namespace!="a"}`, `{namespace=""}`, `{namespace!~"a"}`,
		`{"namespace"="b"}`, `{__name__="load",namespace="b"}`, `{"load", namespace="b"}`, `load{namespace="a"} or load{namespace="b"}`,
		`{namespace="a" or namespace="b"}`, `count({__name__=~".+"}) by (namespace, node, __name__)`, `topk(10, {__name__=~".+"})`, `sum(load) by (node)`,
		`label_replace(load, "namespace", "b", "", "")`, `label_replace({namespace="b"}, "namespace", "a", "namespace", ".*")`,
		`label_join(load, "namespace", "", "node")`, `absent(load{namespace="b"})`, `absent_over_time(secretmetric[5m])`, `secretmetric`, `nowhere`,
		`max_over_time(load{namespace="b"}[30m:1m])`, `rate(load{namespace="b"}[30m])`, `load{namespace="b"} @ 60`, `load{namespace="b"} offset 5m`, `load @ end()`,
		`load * on() group_left(node) secretmetric`, `load and on() secretmetric`, `load unless on() secretmetric`, `scalar(secretmetric)`, `vector(scalar(load{namespace="b"}))`,
		`count_values("v", {__name__=~"load|secretmetric"})`, `sort_desc({__name__=~".+"})`, `info(load)`, `info(load, {__name__=~".+"})`, `group({__name__=~".+"}) by (secretlabel)`,
		`{namespace=~"b|"}`, `{namespace=~"a.*|.*"}`, "{namespace=\"a\\\"} or {namespace=\\\"b\"}", `last_over_time({__name__=~".+"}[2h])`, `quantile(1, {node=~"secret.*"})`,
	} {
		for path, form := range map[string]url.Values{
			"query":           {"query": {query}},
			"query_range":     {"query": {query}, "start": {"0"}, "end": {"7000"}, "step": {"60"}},
			"query_exemplars": {"query": {query}, "start": {"0"}, "end": {"7000"}},
			"series":          {"match[]": {query}}, "labels": {"match[]": {query, `{namespace="b"}`}},
			"label/node/values": {"match[]": {query}}, "label/namespace/values": {"match[]": {query, `{namespace!=""}`}},
			"label/__name__/values": {}, "metadata": {"metric": {query}}, "label/secretlabel/values": {},
		} {
			expectNoForbiddenData(t, h, path, form)
		}
	}
	for _, path := range []string{"labels", "label/namespace/values", "label/node/values", "label/item/values", "metadata", "rules", "alerts"} {
		expectNoForbiddenData(t, h, path, url.Values{})
	}
	for _, namespace := range []string{"b", "a|b", ".*", "a,b"} {
		if a, status := get(t, h, "query", url.Values{"query": {"load"}, "namespace": {namespace}}); status != http.StatusForbidden && status != http.StatusNotFound {
			t.Errorf("namespace=%s: status %d, %s", namespace, status, a.Data)
		}
	}
	if a, _ := get(t, h, "query", url.Values{"query": {`{namespace!=""}`}}); !strings.Contains(string(a.Data), `"n1"`) || a.Error != "" {
		t.Errorf("the caller does not see namespace a: %s %s", a.Data, a.Error)
	}
	everywhere := serveSeries(store, Options{}, access.Grants{Role: access.Viewer})
	if a, _ := get(t, everywhere, "label/node/values", nil); string(a.Data) != `["n1","secret1","secret2","secret3"]` {
		t.Errorf("a viewer of all namespaces sees %s", a.Data)
	}
}

// expectNoForbiddenData fails the test if an answer shows data from a namespace that the caller may not read.
func expectNoForbiddenData(t *testing.T, h http.Handler, path string, form url.Values) {
	t.Helper()
	a, _ := get(t, h, path, form)
	text := string(a.Data) + strings.Join(slices.Concat(a.Warnings, a.Infos), "\n")
	if secret.MatchString(text) {
		t.Errorf("%s %v shows another namespace: %s", path, form, text)
	}
}

// secret matches names and values of other namespaces than a.
var secret = regexp.MustCompile(`secret|nowhere|"1\d{3}"`)

// TestCallersWithoutNamespaces expects a refusal for a caller without a role in any namespace.
func TestCallersWithoutNamespaces(t *testing.T) {
	store := promqltest.LoadedStorage(t, twoNamespaces)
	h := serveSeries(store, Options{}, access.Grants{Role: access.Agent})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, Prefix+"/api/v1/query?query=load", nil))
	if w.Code != http.StatusForbidden {
		t.Errorf("an agent's user got status %d: %s", w.Code, w.Body)
	}
	q, err := view.SeriesIn(store).Querier(0, 1e9)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if names, _, _ := q.LabelValues(t.Context(), "node", nil); len(names) > 0 || q.Select(t.Context(), false, nil, labels.MustNewMatcher(labels.MatchEqual, "node", "secret3")).Next() {
		t.Errorf("no namespaces show %q", names)
	}
}

// TestLimits exceeds each limit of queries and expects an error that states the limit.
func TestLimits(t *testing.T) {
	store := promqltest.LoadedStorage(t, twoNamespaces)
	h := serveSeries(store, Options{}, access.Grants{Role: access.Viewer})
	period := func(query, start, end, step string) url.Values {
		return url.Values{"query": {query}, "start": {start}, "end": {end}, "step": {step}}
	}
	for name, c := range map[string]struct {
		path, kind, says string
		form             url.Values
	}{
		"points":         {"query_range", "bad_data", "11,000 points", period("load", "0", "11001", "1")},
		"points far":     {"query_range", "bad_data", "11,000 points", period("load", "-9e15", "9e15", "9e9")},
		"step":           {"query_range", "bad_data", "millisecond", period("load", "0", "1", "0")},
		"tiny step":      {"query_range", "bad_data", "millisecond", period("load", "0", "0", "0.0000001")},
		"no step":        {"query_range", "bad_data", `"step"`, url.Values{"query": {"1"}, "start": {"0"}, "end": {"1"}}},
		"backwards":      {"query_range", "bad_data", "before", period("load", "2", "1", "1")},
		"no time":        {"query", "bad_data", "NaN", url.Values{"query": {"1"}, "time": {"NaN"}}},
		"no expression":  {"query", "bad_data", "no expression", url.Values{}},
		"long":           {"query", "bad_data", "16384 bytes", url.Values{"query": {strings.Repeat("1", maxQueryBytes+1)}}},
		"long labels":    {"query", "bad_data", "times the length of a label", url.Values{"query": {strings.Repeat("label_replace(", 40) + "vector(1)" + strings.Repeat(`, "a", "$1$1", "a", "(.*)")`, 40)}}},
		"wrong":          {"query", "bad_data", "parse error", url.Values{"query": {"load{"}}},
		"no selector":    {"series", "bad_data", "match[]", url.Values{}},
		"empty selector": {"series", "bad_data", "non-empty", url.Values{"match[]": {`{node=~".*"}`}}},
		"negative limit": {"labels", "bad_data", "limit", url.Values{"limit": {"-1"}}},
	} {
		for _, ask := range []func(testing.TB, http.Handler, string, url.Values) (answer, int){get, post} {
			if a, _ := ask(t, h, c.path, c.form); a.Status != "error" || a.ErrorType != c.kind || !strings.Contains(a.Error, c.says) {
				t.Errorf("%s: %s %s: %.200s", name, a.Status, a.ErrorType, a.Error)
			}
		}
	}
	small := serveSeries(store, Options{Engine: promql.NewEngine(promql.EngineOpts{MaxSamples: 10, Timeout: time.Minute})}, access.Grants{Role: access.Viewer})
	if a, status := post(t, small, "query_range", period("load", "0", "7000", "60")); status != 422 || a.ErrorType != "execution" || !strings.Contains(a.Error, "choose fewer series") {
		t.Errorf("too many samples: status %d, %s: %s", status, a.ErrorType, a.Error)
	}
	for name, query := range map[string]string{
		"parentheses": strings.Repeat("(", maxQueryBytes/2-1) + "1" + strings.Repeat(")", maxQueryBytes/2-1),
		"functions":   strings.Repeat("abs(", 3000) + "load" + strings.Repeat(")", 3000),
	} {
		if _, status := post(t, h, "query", url.Values{"query": {query}}); status == http.StatusInternalServerError {
			t.Errorf("deep %s: status %d", name, status)
		}
	}
	if a, _ := get(t, h, "series", url.Values{"match[]": {`{node!=""}`}, "limit": {"2"}}); len(a.Warnings) != 1 || strings.Count(string(a.Data), "node") != 2 {
		t.Errorf("limited series: %s, warnings %q", a.Data, a.Warnings)
	}
}

// TestThirdQueryOfUserWaits starts three queries of one user at once, and expects the third to wait. At its timeout, the
// third is refused.
func TestThirdQueryOfUserWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := storage.QueryableFunc(func(int64, int64) (storage.Querier, error) { return hangingQuerier{storage.NoopQuerier()}, nil })
		h := serveSeries(hangs, Options{}, access.Grants{Role: access.Viewer})
		for range maxUserQueries {
			go get(t, h, "query", url.Values{"query": {"load"}, "timeout": {"20"}})
		}
		synctest.Wait()
		if a, status := get(t, h, "query", url.Values{"query": {"1"}, "timeout": {"5s"}}); status != 503 || a.ErrorType != "timeout" || !strings.Contains(a.Error, "2 of user ada") {
			t.Errorf("status %d, %s: %s", status, a.ErrorType, a.Error)
		}
		if a, _ := get(t, h, "query", url.Values{"query": {"1"}}); a.Status != "success" {
			t.Errorf("after the others ended: %s", a.Error)
		}
	})
}

// hangingQuerier simulates a hanging series store, because each read blocks until the query is cancelled.
type hangingQuerier struct{ storage.Querier }

// Select blocks until the query is cancelled, in place of a read from the series store.
func (hangingQuerier) Select(ctx context.Context, _ bool, _ *storage.SelectHints, _ ...*labels.Matcher) storage.SeriesSet {
	<-ctx.Done()
	return storage.ErrSeriesSet(ctx.Err())
}

// TestServerWithoutSeriesStore queries a server without a series store, and expects an error. Only the request for the version
// gets an answer.
func TestServerWithoutSeriesStore(t *testing.T) {
	h := serveSeries(nil, Options{}, access.Grants{Role: access.Viewer})
	if a, status := get(t, h, "query", url.Values{"query": {"1"}}); status != 503 || a.ErrorType != "unavailable" {
		t.Errorf("status %d: %+v", status, a)
	}
	mod, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	a, _ := get(t, h, "status/buildinfo", nil)
	want := "github.com/prometheus/prometheus v0.3" + strings.TrimPrefix(prometheusVersion, "3.")
	if !strings.Contains(string(a.Data), `"version":"`+prometheusVersion+`"`) || !strings.Contains(string(mod), want) {
		t.Errorf("version %s, but go.mod does not have %s", a.Data, want)
	}
}

// TestGrafanaRequests sends the requests of Grafana's Prometheus data source, and expects the right answers.
func TestGrafanaRequests(t *testing.T) {
	h := serveSeries(promqltest.LoadedStorage(t, twoNamespaces), Options{}, access.Grants{Role: access.Viewer})
	text, err := os.ReadFile(filepath.Join("testdata", "grafana.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for lines := range slices.Chunk(strings.Split(string(text), "\n"), 4) {
		if len(lines) < 3 {
			break
		}
		method, target, _ := strings.Cut(lines[0], " ")
		r := httptest.NewRequest(method, target, strings.NewReader(lines[1]))
		if method == http.MethodPost {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := strings.TrimSpace(fmt.Sprintf("%d %s", w.Code, w.Body)); sortSeries(got) != sortSeries(lines[2]) {
			t.Errorf("%s %s\n got %s\nwant %s", lines[0], lines[1], got, lines[2])
		}
	}
}

// sortSeries sorts the series in an answer, so that answers can be compared. An aggregation returns the series in any
// order.
func sortSeries(answer string) string {
	before, list, ok := strings.Cut(answer, `"result":[`)
	if !ok {
		return answer
	}
	parts := strings.Split(strings.TrimSuffix(list, "]}}"), `,{"metric":`)
	parts[0] = strings.TrimPrefix(parts[0], `{"metric":`)
	slices.Sort(parts)
	return before + strings.Join(parts, "\n")
}

// FuzzDecodeParameters decodes random parameters, and expects an error or values that the PromQL engine accepts.
func FuzzDecodeParameters(f *testing.F) {
	for _, seed := range []string{
		"query=up&time=1.5&timeout=5s", "query=x&start=0&end=1e3&step=15&lookback_delta=5m", "match[]=up&match[]={a=\"b\"}&start=2026-01-01T00:00:00Z&limit=7",
		"time=NaN", "start=-Inf&end=Inf&step=-1", "step=1e300", "end=" + maxTime.Format(time.RFC3339Nano) + "&start=" + minTime.Format(time.RFC3339Nano), "match[]={a=~\".*\"}",
	} {
		f.Add(seed)
	}
	p := parser.NewParser(parser.Options{})
	f.Fuzz(func(t *testing.T, text string) {
		form, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		x, err := decodeParameters(form, p, now)
		if err != nil {
			return
		}
		if x.end.Before(x.start) || x.end.UnixMilli() < x.start.UnixMilli() || x.step < 0 || x.timeout < 0 || x.lookback < 0 || x.limit < 0 {
			t.Errorf("%q: %+v", text, x)
		}
		if x.checkRange(form) == nil && (x.step < time.Millisecond || (x.end.UnixMilli()-x.start.UnixMilli())/x.step.Milliseconds() > maxPoints) {
			t.Errorf("%q: too many points", text)
		}
	})
}
