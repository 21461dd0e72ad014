package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/muster-fleet/muster/internal/measure"
	"github.com/muster-fleet/muster/internal/model"
)

// Bounds of the page of an exporter.
const (
	maxScrapePage = 16 << 20
	maxScraped    = 10_000 // series

	maxScrapeRedirects = 10
)

// ScrapeSeries is the number of series about a scrape, which stand at the end of Env.Scraped: up, its duration and its number of
// series.
const ScrapeSeries = 3

// runPrometheus scrapes an exporter of Prometheus. Series named as Prometheus names them say whether the exporter
// was up, and how long the scrape took.
func runPrometheus(ctx context.Context, env *Env, a argValues, r *report) error {
	request, client, err := scrapeRequest(ctx, env, a)
	if err != nil {
		return err
	}
	began := env.now()
	values, err := readPage(client, request, a)
	took, up := env.now().Sub(began), 1.0
	if err != nil {
		up, values = 0, nil
		r.addFinding(model.Critical, "%v", err)
	} else {
		r.addFinding(model.OK, "%d series in %s", len(values), ageText(took))
	}
	scraped := float64(len(values))
	env.Scraped = append(values, model.Value{Name: "up", Value: up}, model.Value{Name: "scrape_duration_seconds", Value: took.Seconds()}, model.Value{Name: "scrape_samples_scraped", Value: scraped})
	return nil
}

// scrapeRequest returns the request for the page of an exporter, and the client that sends the request.
func scrapeRequest(ctx context.Context, env *Env, a argValues) (*http.Request, *http.Client, error) {
	roots, err := loadRoots(env, a.text("ca"))
	if err != nil {
		return nil, nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.text("url"), nil)
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("User-Agent", "muster-agent")
	request.Header.Set("Accept", "text/plain;version=0.0.4")
	for _, name := range [...]string{"passwordFile", "tokenFile"} {
		file := a.text(name)
		if file == "" {
			continue
		}
		secret, err := os.ReadFile(env.pathBelowRoot(file))
		if err != nil {
			return nil, nil, err
		}
		if name == "tokenFile" {
			request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(secret)))
		} else {
			request.SetBasicAuth(a.text("user"), strings.TrimSpace(string(secret)))
		}
	}
	transport := &http.Transport{DialContext: env.dial, DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, InsecureSkipVerify: !a.bool("verify")}}
	return request, &http.Client{Transport: transport, CheckRedirect: func(next *http.Request, before []*http.Request) error {
		switch first := before[0].URL; {
		case next.URL.Host != first.Host || next.URL.Scheme != first.Scheme && first.Scheme == "https":
			return errors.New("the redirect to another server is not followed: write its address as url")
		case len(before) >= maxScrapeRedirects:
			return fmt.Errorf("more than %d redirects", maxScrapeRedirects)
		}
		return nil
	}}, nil
}

// readPage requests the page of an exporter and parses the series that the arguments select.
func readPage(client *http.Client, request *http.Request, a argValues) ([]model.Value, error) {
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP %s", answer.Status)
	}
	page, err := io.ReadAll(io.LimitReader(answer.Body, maxScrapePage+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the page: %w", err)
	case len(page) > maxScrapePage:
		return nil, fmt.Errorf("the page has over %d MiB", maxScrapePage>>20)
	}
	keep, drop := a.regexp("keep"), a.regexp("drop")
	values, err := measure.ParsePage(page, maxScraped, func(series []byte) bool {
		return (keep == nil || keep.Match(series)) && (drop == nil || !drop.Match(series))
	})
	switch {
	case err != nil:
		return nil, err
	case len(values) == 0:
		return nil, errors.New("the page has no series")
	}
	return values, nil
}
