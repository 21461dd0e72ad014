package client

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"time"
)

// InProcess makes a client of an API in the same process. The API admits, limits and counts each
// call as a request from that address with that token.
func InProcess(api http.Handler, from, token string) *Client {
	return newClient(&connection{base: &url.URL{Scheme: "https", Host: "muster"}, http: &http.Client{Transport: handlerTransport{api, from}}, token: token, now: time.Now})
}

// handlerTransport answers requests by an http.Handler; from is the address of the caller.
type handlerTransport struct {
	api  http.Handler
	from string
}

// RoundTrip implements http.RoundTripper.
func (t handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	request := r.Clone(r.Context())
	request.RemoteAddr, request.RequestURI = t.from, r.URL.RequestURI()
	if request.Body == nil {
		request.Body = http.NoBody
	}
	w := &recorder{header: http.Header{}}
	t.api.ServeHTTP(w, request)
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return &http.Response{
		StatusCode: w.status, Status: http.StatusText(w.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// recorder is an http.ResponseWriter that keeps the answer in memory.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *recorder) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. The first final status wins.
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *recorder) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}
