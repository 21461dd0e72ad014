package model

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// HTTPRequest is the request by which an agent collects an item, as Zabbix's HTTP agent items do. Macros may stand in all texts
// but method and retrieve.
type HTTPRequest struct {
	// Its address, with http:// or https://.
	URL string `json:"url"`
	// Fields of the query. The agent escapes them and appends them to the address.
	Query map[string]string `json:"query,omitempty"`
	// GET (default), POST, PUT or HEAD.
	Method string `json:"method,omitempty"`
	// Headers of the request. They do not follow a redirect to another server.
	Headers map[string]string `json:"headers,omitempty"`
	// The body of the request.
	Body string `json:"body,omitempty"`
	// Accepted status codes: 200 (default), 200-299, 401. With another status the item is unsupported.
	Status string `json:"status,omitempty"`
	// The agent follows no redirect: it is the answer.
	NoRedirects bool `json:"noRedirects,omitempty"`
	// The part of the answer that is the value: body (default), headers or both.
	Retrieve string `json:"retrieve,omitempty"`
	// The value is JSON, {"header": {…}, "body": …}. A body of type application/json is an object in it.
	AsJSON bool `json:"asJSON,omitempty"`
	// The user of basic authentication.
	User string `json:"user,omitempty"`
	// The password of basic authentication: a secret macro.
	Password string `json:"password,omitempty"`
	// Certificates of the server are not verified.
	Insecure bool `json:"insecure,omitempty"`
	// How long the answer may take; default 3s, at most 60s.
	Timeout Duration `json:"timeout,omitempty"`
}

// ExpandTexts returns a copy of the request with the texts that a function makes of its texts. It returns the first error
// of the function.
func (r *HTTPRequest) ExpandTexts(expand func(string) (string, error)) (*HTTPRequest, error) {
	out := *r
	var failed error
	change := func(text string) string {
		changed, err := expand(text)
		if err != nil && failed == nil {
			failed = err
		}
		return changed
	}
	for _, text := range []*string{&out.URL, &out.Body, &out.Status, &out.User, &out.Password} {
		*text = change(*text)
	}
	for _, fields := range []*map[string]string{&out.Query, &out.Headers} {
		changed := make(map[string]string, len(*fields))
		for _, name := range slices.Sorted(maps.Keys(*fields)) {
			changed[change(name)] = change((*fields)[name])
		}
		if *fields != nil {
			*fields = changed
		}
	}
	return &out, failed
}

// EachText calls a function for each text of the request that may have macros. A nil request has none.
func (r *HTTPRequest) EachText(do func(text string)) {
	if r == nil {
		return
	}
	_, _ = r.ExpandTexts(func(text string) (string, error) { do(text); return text, nil })
}

// IsStatusAccepted reports whether a status of HTTP is in a list of numbers and ranges, such as 200-299.
func IsStatusAccepted(list []string, status int) (bool, error) {
	for _, one := range list {
		from, to, isRange := strings.Cut(strings.TrimSpace(one), "-")
		if !isRange {
			to = from
		}
		low, errLow := strconv.Atoi(from)
		high, errHigh := strconv.Atoi(to)
		if errLow != nil || errHigh != nil {
			return false, fmt.Errorf("invalid HTTP status %q: expected a number or a range such as 200-299", one)
		}
		if status >= low && status <= high {
			return true, nil
		}
	}
	return false, nil
}
