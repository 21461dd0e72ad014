package sensu

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
)

// API is the HTTP API of a Sensu backend. One goroutine uses it.
type API struct {
	URL       string // http://host:8080
	User      string
	Password  string
	Namespace string
	Client    *http.Client

	token string
	taken time.Time // the token
}

// metadata is the metadata of a Sensu resource.
type metadata struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// page is the number of events in one request.
const page = 1000

// tokenFor is for how long a token is used: it is good for five minutes.
const tokenFor = 2 * time.Minute

// maxAnswer bounds one answer, bytes: events hold outputs of up to 1 MiB.
const maxAnswer = 2 << 30

// version returns the version of the backend.
func (c *API) version(ctx context.Context) (string, error) {
	var v struct {
		Backend string `json:"sensu_backend"`
	}
	_, err := c.call(ctx, http.MethodGet, "/version", nil, &v)
	return v.Backend, err
}

// resources returns the URL of resources in the namespace.
func (c *API) resources(path string) string {
	return "/api/core/v2/namespaces/" + url.PathEscape(c.Namespace) + "/" + path
}

// put creates or replaces a check.
func (c *API) put(ctx context.Context, k *check) error {
	spec := map[string]any{
		"metadata": metadata{Name: k.name, Namespace: c.Namespace}, "command": "true", "interval": k.interval, "ttl": k.ttl,
		"subscriptions": k.subscriptions, "publish": true, "handlers": []string{},
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("encode check %s: %w", k.name, err)
	}
	_, err = c.call(ctx, http.MethodPut, c.resources("checks/"+k.name), text, nil)
	return err
}

// remove deletes a check.
func (c *API) remove(ctx context.Context, name string) error {
	_, err := c.call(ctx, http.MethodDelete, c.resources("checks/"+name), nil, nil)
	if model.ClassOf(err) == model.NotFound {
		return nil
	}
	return err
}

// events calls f with every event of a check, page after page.
func (c *API) events(ctx context.Context, f func(state, held)) error {
	type named struct {
		Metadata metadata `json:"metadata"`
	}
	for next := ""; ; {
		var list []struct {
			Entity *named `json:"entity"`
			Check  *struct {
				named
				Executed    int64  `json:"executed"`
				Status      uint32 `json:"status"`
				Occurrences uint32 `json:"occurrences"`
			} `json:"check"`
		}
		path := c.resources("events?limit=" + strconv.Itoa(page))
		if next != "" {
			path += "&continue=" + url.QueryEscape(next)
		}
		header, err := c.call(ctx, http.MethodGet, path, nil, &list)
		if err != nil {
			return err
		}
		for _, e := range list {
			if e.Entity != nil && e.Check != nil {
				f(state{e.Entity.Metadata.Name, e.Check.Metadata.Name}, held{e.Check.Executed, e.Check.Status, e.Check.Occurrences})
			}
		}
		if next = header.Get("Sensu-Continue"); next == "" {
			return nil
		}
	}
}

// login gets a new token if the present one is old.
func (c *API) login(ctx context.Context) error {
	if c.token != "" && time.Since(c.taken) < tokenFor {
		return nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+"/auth", http.NoBody)
	if err != nil {
		return model.Errorf(model.Invalid, "address of the API: %w", err)
	}
	request.SetBasicAuth(c.User, c.Password)
	var v struct {
		Token string `json:"access_token"`
	}
	if _, err := c.do(request, &v); err != nil {
		return err
	}
	c.token, c.taken = v.Token, time.Now()
	return nil
}

// call sends an authorized request, and decodes the answer.
func (c *API) call(ctx context.Context, method, path string, body []byte, into any) (http.Header, error) {
	if err := c.login(ctx); err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, c.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, model.Errorf(model.Invalid, "address of the API: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Content-Type", sensuwire.MediaJSON)
	return c.do(request, into)
}

// do sends a request, and decodes the answer.
func (c *API) do(request *http.Request, into any) (http.Header, error) {
	what := request.Method + " " + request.URL.Path
	answer, err := c.Client.Do(request)
	if err != nil {
		return nil, model.Errorf(model.Unavailable, "%s: %w", what, err).WithHint("is the API there? --sensu-api http://HOST:8080")
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, model.Errorf(model.Unavailable, "%s: %w", what, err)
	}
	if answer.StatusCode/100 != 2 {
		said := strings.TrimSpace(string(text[:min(len(text), 200)]))
		return nil, model.Errorf(model.ClassOfHTTP(answer.StatusCode), "%s: %s %s", what, answer.Status, said).
			WithHint("the API's user is --sensu-user, its password SENSU_PASSWORD")
	}
	if into == nil {
		return answer.Header, nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return nil, model.Errorf(model.Invalid, "%s: not an answer of Sensu's API: %w", what, err)
	}
	return answer.Header, nil
}
