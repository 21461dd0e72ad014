package pki

import (
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// sampleEnrolment returns an authority, its answer to an enrolled machine, and the machine's key
func sampleEnrolment(f *testing.F) (*Authority, EnrolAnswer, []byte) {
	a := openAuthority(f, f.TempDir(), nil, "127.0.0.1")
	key, csr := machineKey(f)
	uid := uuid.New()
	cert, err := a.IssueNodeCertificate(csr, uid)
	testenv.NoError(f, err)
	pem, err := keyPEM(key)
	testenv.NoError(f, err)
	return a, EnrolAnswer{
		Node: uid, Name: "web01", Namespace: "default", Certificate: cert, CA: a.CAPEM(),
		ServerKey: publicKey(a.SigningKey()), Servers: []string{"127.0.0.1:8443"},
	}, pem
}

// FuzzIdentity parses random bytes as an agent's identity file or an enrolment answer, and expects complete
// identities. An accepted identity is complete.
func FuzzIdentity(f *testing.F) {
	_, answer, key := sampleEnrolment(f)
	add := func(change func(*storedIdentity)) {
		s := storedIdentity{answer, key}
		change(&s)
		data, err := json.Marshal(s)
		testenv.NoError(f, err)
		f.Add(data, http.StatusOK)
	}
	add(func(*storedIdentity) {})
	add(func(s *storedIdentity) { s.Node = uuid.New() })
	add(func(s *storedIdentity) { s.Key = nil })
	add(func(s *storedIdentity) { s.CA = s.Key })
	add(func(s *storedIdentity) { s.ServerKey = s.ServerKey[:31] })
	f.Add(answer.CA, http.StatusOK)
	f.Add(key, http.StatusOK)
	f.Add([]byte(`{"title":"enrolment refused","status":401,"detail":"the join token is unknown to the server","hint":"muster node token"}`), http.StatusUnauthorized)
	f.Add([]byte(`<html>`), http.StatusBadGateway)
	f.Fuzz(func(t *testing.T, data []byte, status int) {
		if id, err := decodeIdentity(data); err == nil {
			if id.Node == uuid.Nil || len(id.Certificate.Certificate) == 0 || len(id.ServerKey) == 0 || id.CA.Equal(x509.NewCertPool()) {
				t.Fatalf("taken although something is missing: %+v", id)
			}
		}
		if cert, err := parseCert(data); (err == nil) != (cert != nil) {
			t.Fatalf("certificate %v, %v", cert, err)
		}
		if key, err := parseKey(data); (err == nil) != (key != nil) {
			t.Fatalf("key %v, %v", key, err)
		}
		if err := answerError(status, data); err != nil {
			if err.Error() == "" || model.ClassOf(err) != model.ClassOfHTTP(status) {
				t.Fatalf("status %d became %v", status, err)
			}
			return
		}
		got, err := decodeAnswer(data)
		if err != nil {
			return
		}
		again, err := json.Marshal(got)
		testenv.NoError(t, err)
		if second, err := decodeAnswer(again); err != nil || !reflect.DeepEqual(second.Servers, got.Servers) || second.Node != got.Node {
			t.Fatalf("%+v, written again %+v, %v", got, second, err)
		}
	})
}

// FuzzEnrol sends random enrolment and certificate requests, and expects invalid requests to be refused as client
// errors. Each node has a certificate.
func FuzzEnrol(f *testing.F) {
	a, _, _ := sampleEnrolment(f)
	token, keep, err := a.NewToken([]string{"127.0.0.1:8443"}, JoinToken{Namespace: "default"})
	testenv.NoError(f, err)
	_, csr := machineKey(f)
	f.Add(`{"secret":"AAAA","csr":"AAAA","name":"web01","labels":{"a":"b"}}`, csr)
	f.Add(`{"secret":7}`, csr[:len(csr)/2])
	f.Add(`[`, []byte{})
	f.Fuzz(func(t *testing.T, body string, csr []byte) {
		nodes := &memoryRegistrar{}
		e := &Enroller{Authority: a, Tokens: &memoryTokens{rows: map[string]JoinToken{keep.ID: keep}}, Registrar: nodes}
		right, err := json.Marshal(EnrolRequest{Secret: token.Secret[:], CSR: csr, Name: body})
		testenv.NoError(t, err)
		for _, body := range []string{body, string(right)} {
			w := httptest.NewRecorder()
			before := len(nodes.got)
			e.ServeHTTP(w, httptest.NewRequest(http.MethodPost, EnrolPath, strings.NewReader(body)))
			if w.Code >= 500 || (w.Code == http.StatusOK) != (len(nodes.got) == before+1) {
				t.Fatalf("%q: %d %s, %d nodes", body, w.Code, w.Body, len(nodes.got)-before)
			}
		}
	})
}
