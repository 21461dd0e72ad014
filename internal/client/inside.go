package client

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Inside makes a client of an API in the same process: each call is a request of whoever is at
// the address from, with that token, and is admitted, bounded and counted like any other.
func Inside(api http.Handler, from, token string) *Client {
	return &Client{base: &url.URL{Scheme: "https", Host: "muster"}, http: &http.Client{Transport: inside{api, from}}, token: token, now: time.Now}
}

type inside struct {
	api  http.Handler
	from string
}

// RoundTrip lets the handler answer.
func (i inside) RoundTrip(r *http.Request) (*http.Response, error) {
	asked := r.Clone(r.Context())
	asked.RemoteAddr, asked.RequestURI = i.from, r.URL.RequestURI()
	if asked.Body == nil {
		asked.Body = http.NoBody
	}
	w := &written{header: http.Header{}}
	i.api.ServeHTTP(w, asked)
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return &http.Response{
		StatusCode: w.status, Status: http.StatusText(w.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// written is an answer that is kept.
type written struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *written) Header() http.Header { return w.header }

func (w *written) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
}

func (w *written) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}
