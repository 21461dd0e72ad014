package zabbiximport

import (
	"cmp"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/conversion"
	"github.com/muster-fleet/muster/internal/model"
)

const (
	hostMacro      = "{$HOST.CONN}"
	requestTimeout = time.Minute // longest
)

// hostAddresses are the macros of Zabbix that have the address of the host; hostMacro replaces them. otherBuiltins are those
// without an equivalent.
var (
	hostAddresses = regexp.MustCompile(`\{HOST\.(?:CONN|IP|DNS)1?\}`)
	otherBuiltins = regexp.MustCompile(`\{(?:HOST|ITEM|INVENTORY|PROXY|FUNCTION)\.[A-Z0-9.]+\}`)
)

// importRequest imports the request of an HTTP agent item. In Zabbix its server or proxy sends it, here the agent of
// the node.
func (im *importer) importRequest(t *template, e *conversion.Mapping, what string, of *model.Item) {
	r := &model.HTTPRequest{
		URL: e.TextOf("url"), Method: enumField(e, "request_method", http.MethodGet), Body: e.TextOf("posts"), NoRedirects: enumField(e, "follow_redirects", "YES") == "NO",
		Retrieve: strings.ToLower(enumField(e, "retrieve_mode", "BODY")), AsJSON: enumField(e, "output_format", "RAW") == "JSON",
	}
	if r.Method == http.MethodGet {
		r.Method = ""
	}
	if r.Retrieve == "body" {
		r.Retrieve = ""
	}
	r.Query, r.Headers = im.importFields(e, what, "query_fields"), im.importFields(e, what, "headers")
	contentType := map[string]string{"JSON": "application/json", "XML": "text/xml"}[enumField(e, "post_type", "RAW")]
	if r.Body != "" && !hasHeader(r.Headers, "Content-Type") {
		if r.Headers == nil {
			r.Headers = map[string]string{}
		}
		r.Headers["Content-Type"] = cmp.Or(contentType, "application/x-www-form-urlencoded")
	}
	if r.Status = e.TextOf("status_codes"); e.HasField("status_codes") && r.Status == "" {
		r.Status = "100-599" // any
	}
	switch kind := enumField(e, "authtype", "NONE"); kind {
	case "NONE":
		e.IgnoreFields("username", "password")
	case "BASIC":
		r.User, r.Password = e.TextOf("username"), e.TextOf("password")
	default:
		im.markNotCollected(e, what, of, "HTTP agent, authentication "+kind)
		im.noteLoss(e, what, "authentication %s has no equivalent in Muster: the item is not collected", kind)
		return
	}
	if enumField(e, "verify_peer", "NO") == "NO" && !strings.HasPrefix(r.URL, "http://") {
		countOmission(t.omitted, e, "items", "HTTP agent: certificates of servers are verified here; write insecure: true to change that", false)
	}
	_ = enumField(e, "verify_host", "NO")
	if enumField(e, "allow_traps", "NO") == "YES" {
		im.noteLoss(e, what, "allow_traps has no equivalent in Muster: no other program sends values of this item")
	}
	im.importRequestTimeout(t, e, what, r)
	im.importInterval(t, e, what, of)
	countOmission(t.omitted, e, "items", "HTTP agent: the agent of the node sends the request, not the server", false)
	missing, hasAddress := "", false
	r, _ = r.ExpandTexts(func(text string) (string, error) {
		replaced := hostAddresses.ReplaceAllLiteralString(text, hostMacro)
		hasAddress = hasAddress || replaced != text
		missing = cmp.Or(missing, otherBuiltins.FindString(replaced))
		return replaced, nil
	})
	of.HTTP = r
	if hasAddress {
		im.addHostMacro(t, e)
	}
	switch {
	case missing != "":
		im.markNotCollected(e, what, of, "HTTP agent "+r.URL)
		im.noteLoss(e, what, "%s has no equivalent in Muster: the item is not collected", missing)
	case !strings.Contains(r.URL, "://") && !strings.HasPrefix(r.URL, "{"):
		r.URL = "http://" + r.URL // as Zabbix does
	}
}

// importFields imports the fields of a query or the headers of a request.
func (im *importer) importFields(e *conversion.Mapping, what, list string) (fields map[string]string) {
	for _, one := range e.List(list) {
		name, value := one.TextOf("name"), conversion.OneLine(one.TextOf("value"))
		if fields == nil {
			fields = map[string]string{}
		}
		if _, twice := fields[name]; twice || name == "" {
			im.noteLoss(one, what, "%s: %q has no name or stands twice; one value is kept", list, name)
		}
		fields[name] = value
	}
	return fields
}

// hasHeader reports whether a request sets a header. Upper and lower case count as equal.
func hasHeader(headers map[string]string, name string) bool {
	for one := range headers {
		if strings.EqualFold(one, name) {
			return true
		}
	}
	return false
}

// importRequestTimeout imports the time-out of a request.
func (im *importer) importRequestTimeout(t *template, e *conversion.Mapping, what string, r *model.HTTPRequest) {
	text := e.TextOf("timeout")
	if text == "" {
		return
	}
	expanded, err := t.macros.Expand(text)
	d, ok := model.ParseZabbixTime(expanded)
	switch {
	case err != nil || !ok || d == 0:
		im.noteLoss(e, what, "time-out %s cannot be read: it is 3 seconds", text)
	case d > requestTimeout:
		im.noteChange(e, what, "time-out %s became %s", text, requestTimeout)
		r.Timeout = model.Duration(requestTimeout)
	case d != 3*time.Second:
		r.Timeout = model.Duration(d)
	}
}

// addHostMacro adds the macro with the address of the host to a template. It replaces {HOST.CONN} and its like.
func (im *importer) addHostMacro(t *template, e *conversion.Mapping) {
	if t.spec.Macros == nil {
		t.spec.Macros = map[string]string{}
	}
	if _, ok := t.spec.Macros[hostMacro]; !ok {
		t.spec.Macros[hostMacro] = "localhost"
		im.noteChange(e, "macro "+hostMacro, "it stands for {HOST.CONN}, {HOST.IP} and {HOST.DNS} in requests, and is localhost: the agent of the host sends them. A Property %s sets another address", hostMacro)
	}
}
