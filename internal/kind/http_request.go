package kind

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Bounds of the request of an item; the protocol has them, too.
const (
	maxRequestURL     = 2048
	maxRequestBody    = 64 << 10
	maxRequestFields  = 64
	maxRequestValue   = 8 << 10
	maxRequestTimeout = model.Duration(time.Minute)
)

// validateHTTPRequest validates the HTTP request of an item. nil is valid. The texts may have macros, whose values nodes have.
func validateHTTPRequest(v *Validator, at string, r *model.HTTPRequest) {
	if r == nil {
		return
	}
	hasMacro := func(text string) bool { return strings.Contains(text, "{$") || strings.Contains(text, "{#") }
	r.EachText(func(text string) {
		v.FlawIf(strings.Contains(text, "{HOST."), at, "write a macro such as {$HOST}, and a Property per node", "%q has a macro of the host, which requests do not replace", model.Truncate(text, 100))
	})
	v.MissingIf(r.URL == "", at+".url", "write https://HOST/PATH", "missing")
	v.RequireLine(at+".url", r.URL, maxRequestURL)
	v.FlawIf(r.URL != "" && !strings.HasPrefix(r.URL, "http://") && !strings.HasPrefix(r.URL, "https://") && !strings.HasPrefix(r.URL, "{"), at+".url", "write https://HOST/PATH", "%q has no http:// or https://", r.URL)
	v.requireOneOf(at+".method", r.Method, http.MethodGet, http.MethodPost, http.MethodPut, http.MethodHead)
	v.requireOneOf(at+".retrieve", r.Retrieve, "body", "headers", "both")
	v.FlawIf(len(r.Body) > maxRequestBody, at+".body", "", "longer than %d bytes", maxRequestBody)
	for _, fields := range []struct {
		name string
		of   map[string]string
	}{{"query", r.Query}, {"headers", r.Headers}} {
		in := at + "." + fields.name
		v.FlawIf(len(fields.of) > maxRequestFields, in, "", "%d fields, at most %d", len(fields.of), maxRequestFields)
		for _, name := range slices.Sorted(maps.Keys(fields.of)) {
			v.FlawIf(name == "" || len(name) > model.MaxText, in, "write {NAME: VALUE}", "%q is no name of a field", name)
			v.FlawIf(len(fields.of[name]) > maxRequestValue, in+"."+name, "", "longer than %d bytes", maxRequestValue)
			isHeader := fields.name == "headers"
			v.FlawIf(isHeader && !hasMacro(name) && (strings.ContainsAny(name, " \t:") || model.HasControl(name)), in, "write {X-Token: TEXT}", "%q is no name of a header", name)
			v.FlawIf(isHeader && model.HasControl(fields.of[name]), in+"."+name, "write one line", "the header has a control character")
		}
	}
	if !hasMacro(r.Status) {
		_, err := model.IsStatusAccepted(strings.Split(cmp.Or(r.Status, "200"), ","), 0)
		v.FlawIf(err != nil, at+".status", "write 200, 200-299 or a list of them", "%v", err)
	}
	v.RequireLine(at+".status", r.Status, model.MaxText)
	v.RequireLine(at+".user", r.User, model.MaxText)
	v.RequireLine(at+".password", r.Password, model.MaxText)
	v.InRange(at+".timeout", r.Timeout, model.Duration(time.Second), maxRequestTimeout)
	v.FlawIf(r.AsJSON && r.Method == http.MethodHead && r.Retrieve != "headers", at+".retrieve", "write headers", "the answer to HEAD has no body")
}
