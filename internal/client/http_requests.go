package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

const (
	apiRoot            = "/api/v1"
	maxAnswerBytes     = 256 << 20 // bytes of one answer
	maxStreamLineBytes = 16 << 20  // bytes of one line of a stream: an event with its output as JSON
)

// escapePath escapes the segments of an API path. So no name, not even one with a slash, leads to another path.
func escapePath(segments ...string) string {
	var b strings.Builder
	for _, name := range segments {
		b.WriteByte('/')
		if name == "." || name == ".." {
			b.WriteString(strings.ReplaceAll(name, ".", "%2E"))
		} else {
			b.WriteString(url.PathEscape(name))
		}
	}
	return b.String()
}

// getJSON sends a GET request to an API path, and decodes the JSON answer as type T.
func getJSON[T any](ctx context.Context, c *connection, path string, query url.Values) (T, error) {
	return requestJSON[T](ctx, c, http.MethodGet, path, query, nil)
}

// postJSON sends a POST request with a JSON body, and decodes the JSON answer as type T.
func postJSON[T any](ctx context.Context, c *connection, path string, in any) (T, error) {
	return requestJSON[T](ctx, c, http.MethodPost, path, nil, in)
}

// requestJSON sends one request, and decodes the JSON answer as a value of type T. The body `in` may be nil.
func requestJSON[T any](ctx context.Context, c *connection, method, path string, query url.Values, in any) (out T, err error) {
	_, err = c.exchangeJSON(ctx, method, path, query, nil, in, &out)
	return out, err
}

// requestWithoutAnswer sends one request and ignores the body of the answer. The body `in` may be nil.
func requestWithoutAnswer(ctx context.Context, c *connection, method, path string, query url.Values, in any) error {
	_, err := c.exchangeJSON(ctx, method, path, query, nil, in, nil)
	return err
}

// exchangeJSON sends one request and decodes the JSON answer. header, in and out may be nil.
func (c *connection) exchangeJSON(ctx context.Context, method, path string, query url.Values, header http.Header, in, out any) (http.Header, error) {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("encode the body of the request: %w", err)
		}
		body = bytes.NewReader(data)
	}
	answer, err := c.sendRequest(ctx, method, path, query, header, body)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if out == nil {
		return answer.Header, nil
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxAnswerBytes)).Decode(out); err != nil {
		return nil, model.Errorf(model.Unavailable, "read the answer of the server to %s: %w", c.base.Host, err)
	}
	return answer.Header, nil
}

// sendRequest sends one HTTP request with the user's token, and returns the server's answer. An answer with a
// status of 300 or more becomes an error.
func (c *connection) sendRequest(ctx context.Context, method, path string, query url.Values, header http.Header, body io.Reader) (*http.Response, error) {
	target := *c.base
	if !strings.HasPrefix(path, promRoot) {
		path = apiRoot + path
	}
	target.RawPath = c.base.EscapedPath() + path
	plain, err := url.PathUnescape(target.RawPath)
	if err != nil {
		return nil, fmt.Errorf("create the HTTP request: %w", err)
	}
	target.Path, target.RawQuery = plain, query.Encode()
	r, err := http.NewRequestWithContext(ctx, method, target.String(), body)
	if err != nil {
		return nil, fmt.Errorf("create the HTTP request: %w", err)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, c.unreachableError(ctx, err)
	}
	if answer.StatusCode < 300 {
		return answer, nil
	}
	defer answer.Body.Close()
	return nil, c.refusalError(answer)
}

// streamReadError is the error of a connection that failed while a stream was read.
type streamReadError struct{ error }

// isStreamReadError reports whether an error means that the connection failed while a stream was read.
func isStreamReadError(err error) bool {
	var broken streamReadError
	return errors.As(err, &broken)
}

// readStream decodes Server-Sent Events as values of type T and passes each value to fn. complete reports that the
// stream's last message was read. readStream calls opened, which may be nil, with the first line, which proves that
// the server streams.
func readStream[T any](ctx context.Context, c *connection, method, path string, query url.Values, in any, opened func() error, fn func(T) (last bool, err error)) (complete bool, err error) {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return false, fmt.Errorf("encode the body of the request: %w", err)
		}
		body = bytes.NewReader(data)
	}
	answer, err := c.sendRequest(ctx, method, path, query, http.Header{"Accept": {"text/event-stream"}}, body)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(make([]byte, 0, 64<<10), maxStreamLineBytes)
	for first := true; lines.Scan(); first = false {
		if first && opened != nil {
			if err := opened(); err != nil {
				return false, err
			}
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue // an empty line, or a comment that keeps the connection open
		}
		var v T
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			return false, fmt.Errorf("read the stream of %s: %w", c.base.Host, err)
		}
		if last, err := fn(v); err != nil || last {
			return last && err == nil, err
		}
	}
	if err := lines.Err(); err != nil && ctx.Err() == nil {
		return false, streamReadError{err}
	}
	return false, nil
}

// Pages reads consecutive pages of an API list, at most 500 elements each, until the caller's limit. The limit
// 0 means all. The result next is the page token of the next page, empty at the end of the list.
func Pages[T any](limit int, read func(size int, after string) (items []T, next string, err error)) (all []T, next string, err error) {
	const most = 500
	for {
		size := most
		if limit > 0 {
			size = min(most, limit-len(all))
		}
		var items []T
		if items, next, err = read(size, next); err != nil {
			return nil, "", err
		}
		if all = append(all, items...); next == "" || limit > 0 && len(all) >= limit {
			return all, next, nil
		}
	}
}

// buildQuery returns the query parameters of a request. Each part is a name with its value behind it, or a filter: a struct, or a
// list of structs, whose fields are parameters of the same names. Zero values are left out, because the server has defaults.
func buildQuery(parts ...any) url.Values {
	query := url.Values{}
	for len(parts) > 0 {
		if name, ok := parts[0].(string); ok {
			addParameter(query, name, reflect.ValueOf(parts[1]))
			parts = parts[2:]
			continue
		}
		addFilter(query, reflect.ValueOf(parts[0]))
		parts = parts[1:]
	}
	return query
}

// addFilter adds the fields of a filter, or of each filter in a list, to the query parameters.
func addFilter(query url.Values, filter reflect.Value) {
	if filter.Kind() == reflect.Slice {
		for i := range filter.Len() {
			addFilter(query, filter.Index(i))
		}
		return
	}
	for i := range filter.NumField() {
		if f := filter.Type().Field(i); f.Anonymous {
			addFilter(query, filter.Field(i))
		} else {
			addParameter(query, strings.ToLower(f.Name[:1])+f.Name[1:], filter.Field(i))
		}
	}
}

// addParameter adds one query parameter, unless its value is zero. A time is formatted by RFC 3339.
func addParameter(query url.Values, name string, value reflect.Value) {
	at, isTime := value.Interface().(time.Time)
	switch {
	case isTime && !at.IsZero():
		query.Set(name, at.Format(time.RFC3339Nano))
	case !isTime && !value.IsZero():
		query.Set(name, fmt.Sprint(value))
	}
}
