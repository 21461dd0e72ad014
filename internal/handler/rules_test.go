package handler

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

func asFinal(err error) bool                  { return errors.As(err, new(*FinalError)) }
func asBusy(err error, into **BusyError) bool { return errors.As(err, into) }

// rulesOf are the documented rules of each service, written from its own pages, not from
// what Muster sends: method, path, headers, required fields, and sizes.
func rulesOf() map[string]func(*capturedRequest) error {
	return map[string]func(*capturedRequest) error{
		"webhook": func(c *capturedRequest) error {
			if c.header.Get("Idempotency-Key") == "" {
				return errors.New("no key")
			}
			if stamp := c.header.Get("Muster-Timestamp"); stamp != "" { // as docs/handlers.md says how
				mac := hmac.New(sha256.New, []byte("s3cret-key"))
				fmt.Fprintf(mac, "%s.%s", stamp, c.body)
				if got := c.header.Get("Muster-Signature"); got != "v1="+hex.EncodeToString(mac.Sum(nil)) {
					return fmt.Errorf("signature %q", got)
				}
			}
			return where(c, "POST", "^/hook$", "")
		},
		"pagerduty":    pagerdutyRules,
		"opsgenie":     opsgenieRules,
		"alertmanager": alertmanagerRules,
		"slack":        slackRules,
		"mattermost":   mattermostRules,
		"teams":        teamsRules,
		"ntfy":         ntfyRules,
	}
}

func where(c *capturedRequest, method, path, typ string) error {
	if c.method != method || !regexp.MustCompile(path).MatchString(c.uri) {
		return fmt.Errorf("%s %s is not served", c.method, c.uri)
	}
	if typ != "" && c.header.Get("Content-Type") != typ {
		return fmt.Errorf("Content-Type %q", c.header.Get("Content-Type"))
	}
	return nil
}

// object reads a body and says what is missing, or longer than may be (in characters).
func object(c *capturedRequest, required []string, limits map[string]int) (map[string]any, error) {
	var v map[string]any
	if err := json.Unmarshal(c.body, &v); err != nil {
		return nil, err
	}
	for _, name := range required {
		if at(v, name) == nil {
			return nil, fmt.Errorf("%s is missing", name)
		}
	}
	for name, most := range limits {
		if s, ok := at(v, name).(string); ok && utf8.RuneCountInString(s) > most {
			return nil, fmt.Errorf("%s has %d characters, at most %d", name, utf8.RuneCountInString(s), most)
		}
	}
	return v, nil
}

// at follows a path of names.
func at(v any, path string) any {
	for _, name := range strings.Split(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

func oneOf(v any, words ...string) error {
	if s, _ := v.(string); !slices.Contains(words, s) {
		return fmt.Errorf("%v is none of %v", v, words)
	}
	return nil
}

// https://developer.pagerduty.com/docs/send-alert-event
func pagerdutyRules(c *capturedRequest) error {
	v, err := object(c, []string{"routing_key", "event_action", "dedup_key"}, map[string]int{"routing_key": 32, "dedup_key": 255, "payload.summary": 1024})
	if err != nil {
		return err
	}
	if len(c.body) > 512<<10 {
		return fmt.Errorf("%d bytes, at most 512 KB", len(c.body))
	}
	if len(v["routing_key"].(string)) != 32 {
		return errors.New("a routing key has 32 characters")
	}
	if v["event_action"] == "trigger" {
		for _, name := range []string{"payload.summary", "payload.source", "payload.severity"} {
			if s, _ := at(v, name).(string); s == "" {
				return fmt.Errorf("%s is missing", name)
			}
		}
		if err := oneOf(at(v, "payload.severity"), "critical", "warning", "error", "info"); err != nil {
			return err
		}
		if _, err := time.Parse(time.RFC3339, at(v, "payload.timestamp").(string)); err != nil {
			return err
		}
	}
	return errors.Join(oneOf(v["event_action"], "trigger", "acknowledge", "resolve"), where(c, "POST", "^/v2/enqueue$", "application/json"))
}

// https://docs.opsgenie.com/docs/alert-api
func opsgenieRules(c *capturedRequest) error {
	if c.header.Get("Authorization") != "GenieKey genie-key" {
		return errors.New("who are you?")
	}
	if c.method == "PUT" { // https://docs.opsgenie.com/docs/alert-api-continued: nothing else is in the body
		v, err := object(c, []string{"priority"}, nil)
		if err == nil && len(v) != 1 {
			err = fmt.Errorf("%v", v)
		}
		return errors.Join(err, oneOf(v["priority"], "P1", "P2", "P3", "P4", "P5"), where(c, "PUT", `^/v2/alerts/[^/]+/priority\?identifierType=alias$`, "application/json"))
	}
	if strings.Contains(c.uri, "identifierType") {
		_, err := object(c, nil, map[string]int{"user": 100, "source": 100, "note": 25000})
		return errors.Join(err, where(c, "POST", `^/v2/alerts/[^/]+/(close|acknowledge)\?identifierType=alias$`, "application/json"))
	}
	v, err := object(c, []string{"message", "alias"}, map[string]int{"message": 130, "alias": 512, "description": 15000, "entity": 512, "source": 100})
	if err != nil {
		return err
	}
	size := 0
	for name, value := range v["details"].(map[string]any) {
		size += utf8.RuneCountInString(name + value.(string))
	}
	if size > 8000 {
		return fmt.Errorf("details of %d characters", size)
	}
	if list, ok := v["responders"].([]any); ok {
		for _, r := range list {
			if err := oneOf(at(r, "type"), "team", "user", "escalation", "schedule"); err != nil {
				return err
			}
		}
	}
	return errors.Join(oneOf(v["priority"], "P1", "P2", "P3", "P4", "P5"), where(c, "POST", "^/v2/alerts$", "application/json"))
}

// https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml
func alertmanagerRules(c *capturedRequest) error {
	var list []struct {
		Labels, Annotations map[string]string
		StartsAt, EndsAt    time.Time
	}
	if err := json.Unmarshal(c.body, &list); err != nil {
		return err
	}
	for _, a := range list {
		if a.Labels["alertname"] == "" || a.StartsAt.IsZero() || a.EndsAt.Before(a.StartsAt) {
			return fmt.Errorf("%+v", a)
		}
		for name := range a.Labels {
			if !regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`).MatchString(name) {
				return fmt.Errorf("label %q", name)
			}
		}
	}
	if user := "Basic " + base64.StdEncoding.EncodeToString([]byte("muster:s3cret")); c.header.Get("Authorization") != user {
		return errors.New("who are you?")
	}
	return where(c, "POST", "^/api/v2/alerts$", "application/json")
}

// https://api.slack.com/messaging/webhooks, https://api.slack.com/reference/block-kit/blocks
func slackRules(c *capturedRequest) error {
	v, err := object(c, []string{"text"}, map[string]int{"text": 40000})
	if err != nil {
		return err
	}
	for _, a := range v["attachments"].([]any) {
		blocks := at(a, "blocks").([]any)
		if len(blocks) > 50 {
			return errors.New("more than 50 blocks")
		}
		for _, b := range blocks {
			most := map[any]int{"header": 150, "section": 3000}[at(b, "type")]
			text, _ := at(b, "text.text").(string)
			if n := utf8.RuneCountInString(text); most == 0 || n == 0 || n > most {
				return fmt.Errorf("a %v of %d characters", at(b, "type"), n)
			}
			if at(b, "text.type") == "mrkdwn" && regexp.MustCompile(`<[!@#]`).MatchString(text) {
				return errors.New("somebody's output calls a channel")
			}
		}
	}
	return where(c, "POST", "^/services/T0/B0/xyz$", "application/json")
}

// https://developers.mattermost.com/integrate/webhooks/incoming/
func mattermostRules(c *capturedRequest) error {
	v, err := object(c, []string{"attachments"}, nil)
	if err != nil {
		return err
	}
	if len(c.body) > 760_000 { // of the properties of a post, in which attachments are
		return fmt.Errorf("%d bytes", len(c.body))
	}
	for _, a := range v["attachments"].([]any) {
		if s, _ := at(a, "fallback").(string); s == "" {
			return errors.New("no fallback")
		}
		if text, _ := at(a, "text").(string); utf8.RuneCountInString(text) > 7600 || strings.Count(text, "```")%2 != 0 {
			return fmt.Errorf("text: %q", text)
		}
	}
	return where(c, "POST", "^/hooks/xyz$", "application/json")
}

// https://learn.microsoft.com/connectors/teams/ and adaptivecards.io/explorer
func teamsRules(c *capturedRequest) error {
	v, err := object(c, []string{"type", "attachments"}, nil)
	if err != nil {
		return err
	}
	if len(c.body) > 28<<10 {
		return fmt.Errorf("%d bytes, at most 28 KB", len(c.body))
	}
	for _, a := range v["attachments"].([]any) {
		if at(a, "contentType") != "application/vnd.microsoft.card.adaptive" || at(a, "content.type") != "AdaptiveCard" || at(a, "content.version") == nil {
			return fmt.Errorf("no adaptive card: %v", a)
		}
		for _, e := range at(a, "content.body").([]any) {
			if err := oneOf(at(e, "type"), "RichTextBlock", "FactSet"); err != nil {
				return err
			}
		}
	}
	return errors.Join(oneOf(v["type"], "message"), where(c, "POST", "^/workflows/xyz$", "application/json"))
}

// https://docs.ntfy.sh/publish/#publish-as-json
func ntfyRules(c *capturedRequest) error {
	v, err := object(c, []string{"topic"}, nil)
	if err != nil {
		return err
	}
	if len(v["message"].(string)) > 4096 || len(v["title"].(string)) > 1024 {
		return errors.New("longer than ntfy takes as a message")
	}
	if len(c.body) > 2*4096 { // server/server.go: what JSON may have
		return fmt.Errorf("%d bytes of JSON", len(c.body))
	}
	if p, _ := v["priority"].(float64); p < 1 || p > 5 {
		return fmt.Errorf("priority %v", v["priority"])
	}
	if c.header.Get("Authorization") != "Bearer tk_abc" {
		return errors.New("who are you?")
	}
	return where(c, "POST", "^/$", "application/json")
}
