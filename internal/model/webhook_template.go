package model

import (
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Expand replaces the variables in address and headers by the values of a node. It escapes values in the address:
// each fills one place in path or query.
func (w *Webhook) Expand(values PropertyValues) (*Webhook, error) {
	out := *w
	t, err := ParseTemplate(w.URL, false)
	if err != nil {
		return nil, err
	}
	if out.URL, err = t.expand(values, inURL); err != nil {
		return nil, err
	}
	for _, s := range []*Secret{&out.Secret, &out.Token} {
		if s.Text == "" {
			continue
		}
		if t, err = ParseTemplate(s.Text, false); err != nil {
			return nil, err
		}
		if s.Text, err = t.Expand(values); err != nil {
			return nil, err
		}
	}
	out.Headers = make(map[string]string, len(w.Headers))
	for _, name := range slices.Sorted(maps.Keys(w.Headers)) {
		t, err := ParseTemplate(w.Headers[name], false)
		if err != nil {
			return nil, err
		}
		if out.Headers[name], err = t.Expand(values); err != nil {
			return nil, err
		}
	}
	return &out, nil
}

// inURL escapes a value to one word in a path or query.
func inURL(value string) string {
	switch value { // a path is walked by these
	case ".", "..":
		return strings.ReplaceAll(value, ".", "%2E")
	}
	return strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
}

// Check validates templates and address of a webhook. It returns the wrong field with the error.
func (w *Webhook) Check() (field string, err error) {
	probe := func(value string) (*url.URL, error) {
		t, err := ParseTemplate(w.URL, false)
		if err != nil {
			return nil, err
		}
		return url.Parse(t.literals(value))
	}
	one, err := probe("a")
	if err != nil {
		return "url", err
	}
	two, err := probe("b")
	if err != nil {
		return "url", err
	}
	if one.Scheme != "http" && one.Scheme != "https" || one.Host == "" {
		return "url", errNoWebServer
	}
	if one.Scheme != two.Scheme || one.Host != two.Host || one.User.String() != two.User.String() {
		return "url", ErrHostVaries
	}
	for _, name := range slices.Sorted(maps.Keys(w.Headers)) {
		if _, err := ParseTemplate(w.Headers[name], false); err != nil {
			return "headers." + name, err
		}
	}
	if _, err := ParseTemplate(w.Secret.Text, false); err != nil {
		return "secret", err
	}
	return "", nil
}

var (
	errNoWebServer = errors.New("is no address of a web server")
	// ErrHostVaries says that a property could choose the server that is called.
	ErrHostVaries = errors.New("a property may fill path and query, not the server that is called")
)
