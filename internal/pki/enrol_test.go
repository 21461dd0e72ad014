package pki

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// deadlined is an answer that records the read deadline of its connection.
type deadlined struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (d *deadlined) SetReadDeadline(t time.Time) error { d.until = t; return nil }

func TestEnrolmentWaitsForNobodyForLong(t *testing.T) {
	e := &Enroller{Authority: open(t, t.TempDir(), nil), Tokens: &memTokens{rows: map[string]JoinToken{}}}
	w := &deadlined{ResponseRecorder: httptest.NewRecorder()}
	e.ServeHTTP(w, httptest.NewRequest(http.MethodPost, EnrolPath, strings.NewReader("{")))
	if left := time.Until(w.until); left <= 0 || left > enrolTimeout {
		t.Fatalf("a body may take %v", left)
	}
}
