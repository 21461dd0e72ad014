package probe

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// bodyLimit is how much of an answer is read.
const bodyLimit = 1 << 20

func httpProbe() Probe {
	return Probe{
		Name: "http", Summary: "An HTTP request: status, body, time taken, and the expiry of the server's certificate.",
		Args: []Arg{
			{Name: "url", Type: Text, Must: true, Help: "what to ask for, with http:// or https://"},
			{Name: "method", Type: Text, Default: "GET", Help: "request method"},
			{Name: "host", Type: Text, Help: "Host header, where it is not that of the URL"},
			{Name: "status", Type: List, Default: "200-399", Help: "statuses that are well: 200, 301-302; redirects are not followed unless follow is true"},
			{Name: "follow", Type: Bool, Default: "false", Help: "follow redirects, at most ten"},
			{Name: "body", Type: Regexp, Help: "must match in the first MiB of the body"},
			{Name: "bodyNot", Type: Regexp, Help: "must not match there"},
			{Name: "warn", Type: Duration, Help: "warning when it takes longer"},
			{Name: "crit", Type: Duration, Help: "critical when it takes longer"},
			{Name: "certWarn", Type: Duration, Default: "21d", Help: "warning when the certificate has less left"},
			{Name: "certCrit", Type: Duration, Default: "7d", Help: "critical when the certificate has less left"},
			{Name: "verify", Type: Bool, Default: "true", Help: "critical when the server's certificate does not verify"},
			{Name: "ca", Type: Text, Help: "PEM file to verify against; default: the system's"},
		},
		run: runHTTP,
	}
}

func runHTTP(ctx context.Context, env *Env, a args, r *report) {
	roots, err := rootsFrom(env, a.text("ca"))
	if err != nil {
		r.add(model.Unknown, "%v", err)
		return
	}
	request, err := http.NewRequestWithContext(ctx, a.text("method"), a.text("url"), nil)
	if err != nil {
		r.add(model.Unknown, "%v", err)
		return
	}
	request.Header.Set("User-Agent", "muster-agent")
	request.Host = a.text("host")
	transport := &http.Transport{
		DialContext: env.dial, DisableKeepAlives: true, DisableCompression: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, InsecureSkipVerify: !a.bool("verify")},
	}
	client := &http.Client{Transport: transport}
	if !a.bool("follow") {
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	began := env.now()
	answer, err := client.Do(request)
	if err != nil {
		r.add(model.Critical, "%v", err)
		return
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, bodyLimit))
	took := env.now().Sub(began)
	if err != nil {
		r.add(model.Critical, "%s: body: %v", a.text("url"), err)
		return
	}
	good, err := statusIn(a.list("status"), answer.StatusCode)
	if err != nil {
		r.add(model.Unknown, "%v", err)
		return
	}
	judgeLatency(a, r, took, "HTTP "+answer.Status)
	if !good {
		r.add(model.Critical, "status %s, want %s", answer.Status, strings.Join(a.list("status"), ", "))
	}
	if re := a.regexp("body"); re != nil && !re.Match(body) {
		r.add(model.Critical, "body does not match %s", re)
	}
	if re := a.regexp("bodyNot"); re != nil && re.Match(body) {
		r.add(model.Critical, "body matches %s", re)
	}
	r.measure("size", float64(len(body)), "B", nil, nil, 0, nan())
	if answer.TLS != nil && len(answer.TLS.PeerCertificates) > 0 {
		judgeExpiry(env, a, r, "certWarn", "certCrit", answer.TLS.PeerCertificates[0])
	}
}

func statusIn(list []string, status int) (bool, error) {
	for _, item := range list {
		from, to, isRange := strings.Cut(item, "-")
		if !isRange {
			to = from
		}
		low, errLow := strconv.Atoi(from)
		high, errHigh := strconv.Atoi(to)
		if errLow != nil || errHigh != nil {
			return false, fmt.Errorf("status %q: want a number or a range such as 200-299", item)
		}
		if status >= low && status <= high {
			return true, nil
		}
	}
	return false, nil
}
