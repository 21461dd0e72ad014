package promapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/op"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/promexpr"
	"github.com/muster-fleet/muster/internal/rules"
)

// Prefix is the path of the API.
const Prefix = "/prometheus"

// Limits of queries.
const (
	maxTimeout     = op.ReadTimeout
	maxSamples     = 5_000_000 // in memory at a time, for one query
	maxQueries     = 4         // at a time
	maxUserQueries = 2         // at a time, of one user
	maxRows        = 100_000   // series, names or values in one answer
	maxBodyBytes   = 1 << 20
)

// Options has the PromQL engine and parser of the API, and the rules to list. Without an engine (nil),
// Prometheus' engine with its defaults is used.
type Options struct {
	Engine promql.QueryEngine
	Parser parser.Parser
	Rules  func() []*rules.Group // of all namespaces; nil: none
}

// operations has the PromQL engine and the query slots of the API. All requests share this state.
type operations struct {
	Options
	queries *op.Quota[string] // that run, by user
}

// promRequest is one request to Prometheus' API.
type promRequest struct {
	op.Request
	*operations
}

// need is the access that each operation needs.
var need = access.NeedOn(access.Read, "series")

// Register adds the operations of Prometheus' HTTP API to the server.
func Register(r *op.Routes, o Options) {
	if o.Parser == nil {
		o.Parser = promexpr.NewParser()
	}
	if o.Engine == nil {
		o.Engine = promql.NewEngine(promql.EngineOpts{
			Logger: r.Logger, MaxSamples: maxSamples, Timeout: maxTimeout, EnableAtModifier: true, EnableNegativeOffset: true, Parser: o.Parser,
			NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
		})
	}
	shared := &operations{o, op.NewQuota[string](maxUserQueries, maxQueries)}
	at := op.NewOperationSet(r, func(q op.Request) *promRequest { return &promRequest{q, shared} })
	for _, x := range []struct {
		id, path, summary string
		byForm            bool
		answer            operation
	}{
		{"querySeries", "query", "Evaluate a PromQL expression at one time", true, (*promRequest).query},
		{"querySeriesRange", "query_range", "Evaluate a PromQL expression over a period", true, (*promRequest).queryRange},
		{"querySeriesExemplars", "query_exemplars", "List exemplars: none are kept", true, answerEmpty("[]")},
		{"findSeries", "series", "List series by their labels", true, (*promRequest).series},
		{"listSeriesLabels", "labels", "List names of labels", true, (*promRequest).labelNames},
		{"listSeriesLabelValues", "label/{name}/values", "List values of a label", false, (*promRequest).labelValues},
		{"listSeriesMetadata", "metadata", "List names of metrics", false, (*promRequest).metadata},
		{"listSeriesRules", "rules", "List recording and alerting rules", false, (*promRequest).rules},
		{"listSeriesAlerts", "alerts", "List pending and firing alerts of rules", false, (*promRequest).alerts},
		{"getSeriesBuild", "status/buildinfo", "Show the version of Prometheus whose API and PromQL this is", false, (*promRequest).buildInfo},
	} {
		op.HandleRaw(at, describe(op.Get(x.id, Prefix+"/api/v1/"+x.path, "series", x.summary)), need, x.answer.serve)
		if x.byForm {
			op.HandleRaw(at, describe(op.Post(x.id+"ByForm", Prefix+"/api/v1/"+x.path, "series", x.summary+", with the parameters as a form")), need, x.answer.serve)
		}
	}
}

// describe adds the JSON answer to the description of an API operation.
func describe(o huma.Operation) huma.Operation {
	o.Responses = map[string]*huma.Response{"200": {Description: "Answer in the form of Prometheus' HTTP API.", Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Type: "object"}}}}}
	if strings.Contains(o.Path, "{name}") {
		o.Parameters = []*huma.Param{{Name: "name", In: "path", Required: true, Schema: &huma.Schema{Type: "string"}}}
	}
	return o
}

// operation is a function that answers a request with JSON data and warnings.
type operation func(*promRequest, context.Context, *http.Request, *parameters) ([]byte, annotations.Annotations, error)

// serve answers one request to Prometheus' API. It decodes the parameters, waits for a query slot, and writes the
// answer.
func (o operation) serve(q *promRequest, w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
	if err := r.ParseForm(); err != nil {
		if errors.As(err, new(*http.MaxBytesError)) {
			w.Header().Set("Connection", "close")
		}
		writeError(w, badData(fmt.Errorf("error parsing form values: %w", err)))
		return nil
	}
	x, err := decodeParameters(r.Form, q.Parser, q.Now())
	if err != nil {
		writeError(w, badData(err))
		return nil
	}
	data, warnings, err := q.run(r, &x, o)
	if err != nil {
		writeError(w, err)
		return nil
	}
	// Here no place among the queries is taken: a slow reader delays no query.
	more := struct {
		Warnings []string `json:"warnings,omitempty"`
		Infos    []string `json:"infos,omitempty"`
	}{}
	more.Warnings, more.Infos = warnings.AsStrings(x.query, 10, 10)
	end, err := json.Marshal(more)
	if err != nil {
		return err
	}
	if len(more.Warnings)+len(more.Infos) > 0 {
		end[0] = ','
	} else {
		end = end[1:]
	}
	w.Header().Set("Content-Type", "application/json")
	for _, part := range [][]byte{[]byte(`{"status":"success","data":`), data, end} {
		if _, err := w.Write(part); err != nil {
			return nil // the client has left
		}
	}
	return nil
}

// run waits for a free query slot of the user, and then runs an API operation. The timeout of the request ends both.
func (q *promRequest) run(r *http.Request, x *parameters, o operation) ([]byte, annotations.Annotations, error) {
	timeout := min(cmp.Or(x.timeout, maxTimeout), maxTimeout)
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	c := access.CallerOf(ctx)
	leave, err := q.queries.Wait(ctx, c.Owner())
	if err != nil {
		return nil, nil, &promError{http.StatusServiceUnavailable, "timeout", fmt.Errorf("the query waited for %s, because %d queries of all users or %d of user %s were running", timeout, maxQueries, maxUserQueries, c.Owner())}
	}
	defer leave()
	return o(q, ctx, r, x)
}

// permittedStore returns a view of the series store with only the namespaces that the caller may read.
func (q *promRequest) permittedStore(ctx context.Context, x *parameters) (storage.Queryable, error) {
	if q.Series == nil {
		return nil, model.Errorf(model.Unavailable, "this server does not store time series")
	}
	if x.namespace == "" {
		return q.Series, nil
	}
	if err := q.checkNamespace(ctx, x); err != nil {
		return nil, err
	}
	return view.SeriesIn(q.Series, x.namespace), nil
}

// checkNamespace returns an error if the request names a namespace that is missing or forbidden to the caller. A
// request without a namespace is valid.
func (q *promRequest) checkNamespace(ctx context.Context, x *parameters) error {
	if x.namespace == "" {
		return nil
	}
	c := access.CallerOf(ctx)
	if err := c.AllowIn(need, x.namespace); err != nil {
		return err
	}
	return q.RequireNamespace(ctx, x.namespace)
}

// promError is an error answer in Prometheus' JSON form.
type promError struct {
	status int
	kind   string
	err    error
}

// Error returns the text of the error.
func (e *promError) Error() string { return e.err.Error() }

// badData returns an error about a wrong request, with Prometheus' error type bad_data.
func badData(err error) error { return &promError{http.StatusBadRequest, "bad_data", err} }

// promErrorOf converts an error to Prometheus' form, with error type and HTTP status.
func promErrorOf(err error) *promError {
	if e, ok := errors.AsType[*promError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*model.Error](err); ok {
		return &promError{e.Class.HTTP(), e.Class.Label(), err}
	}
	if errors.As(err, new(promql.ErrQueryCanceled)) || errors.Is(err, context.Canceled) {
		return &promError{499, "canceled", err}
	}
	if errors.As(err, new(promql.ErrQueryTimeout)) || errors.Is(err, context.DeadlineExceeded) {
		return &promError{http.StatusServiceUnavailable, "timeout", fmt.Errorf("%w; the time limit of a query is %s", err, maxTimeout)}
	}
	if errors.As(err, new(promql.ErrTooManySamples)) {
		err = fmt.Errorf("%w: a query may load at most %d values; choose fewer series, a shorter period or a larger step", err, maxSamples)
	}
	if errors.As(err, new(promql.ErrStorage)) {
		return &promError{http.StatusInternalServerError, "internal", err}
	}
	return &promError{http.StatusUnprocessableEntity, "execution", err}
}

// writeError writes an error as an answer in Prometheus' JSON form.
func writeError(w http.ResponseWriter, err error) {
	e := promErrorOf(err)
	body, err := json.Marshal(map[string]string{"status": "error", "errorType": e.kind, "error": e.Error()})
	if err != nil {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.status)
	_, _ = w.Write(body) // an error means that the client has left
}
