package probe

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
)

// FuzzArgs gives every probe any argument: it is refused in words by lint already, or
// taken by lint and run alike.
func FuzzArgs(f *testing.F) {
	for _, value := range []string{"", "10%", "5GiB", "-1", "1e400", "NaN", "~:10", "@1:2", "30s", "true", "a,b,,c", "(", "(?i)x", "{{ .props.x }}", "101%"} {
		f.Add("warn", value)
		f.Add("match", value)
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		for _, p := range All() {
			given := map[string]string{}
			for _, arg := range p.Args {
				given[arg.Name] = value
			}
			given[name] = value
			linted, wrong := p.parse(given, true)
			for _, err := range wrong {
				if err.Error() == "" {
					t.Errorf("%s refuses without words", p.Name)
				}
			}
			run, errs := p.parse(given, false)
			if !strings.Contains(value, "{{") && (len(wrong) != len(errs) || !reflect.DeepEqual(keys(linted), keys(run))) {
				t.Errorf("%s %v: lint says %v, the run %v", p.Name, given, wrong, errs)
			}
		}
	})
}

func keys(a args) map[string]bool {
	out := map[string]bool{}
	for name := range a {
		out[name] = true
	}
	return out
}

// FuzzCertificates reads any bytes as a file of certificates: there is one in it that
// expires first, or a reason.
func FuzzCertificates(f *testing.F) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	server.Close()
	f.Add(certificate)
	f.Add(append([]byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), certificate...))
	f.Add(certificate[:len(certificate)/2])
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		certs, err := decodeCertificates(data)
		if (err == nil) != (len(certs) > 0) {
			t.Fatalf("%d certificates, %v", len(certs), err)
		}
		if err == nil {
			for first, i := firstToExpire(certs), 0; i < len(certs); i++ {
				if certs[i].NotAfter.Before(first.NotAfter) {
					t.Fatalf("%s is not the first of %d to expire", first.NotAfter, len(certs))
				}
			}
		}
	})
}
