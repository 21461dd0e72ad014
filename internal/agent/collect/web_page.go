package collect

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/item"
)

// maxPage bounds the part of a page in bytes that is read.
const maxPage = 1 << 20

// pageAddress returns the address of web.page.get[HOST,PATH,PORT] or web.page.get[URL].
func pageAddress(k *Key) (string, error) {
	host, path, port := k.Parameter(0, ""), k.Parameter(1, ""), k.Parameter(2, "")
	if host == "" {
		return "", fmt.Errorf("%s: the host is missing; write %s[HOST,PATH,PORT] or %s[URL]", k.Name, k.Name, k.Name)
	}
	if strings.Contains(host, "://") {
		of, err := url.Parse(host)
		if err != nil || of.Host == "" || of.Scheme != "http" && of.Scheme != "https" {
			return "", fmt.Errorf("%s: the URL is not valid; write https://HOST/PATH", k.Name)
		}
		if path != "" || port != "" {
			return "", fmt.Errorf("%s: a URL must not be followed by a path or a port", k.Name)
		}
		return host, nil
	}
	port, err := portParameter(k, 2, "80")
	if err != nil {
		return "", err
	}
	return "http://" + net.JoinHostPort(strings.Trim(host, "[]"), port) + "/" + strings.TrimLeft(path, "/"), nil
}

// readPage requests a web page and returns the HTTP header and the body of the answer. A redirect is a page of its own.
func readPage(ctx context.Context, k *Key) (head, body []byte, err error) {
	address, err := pageAddress(k)
	if err != nil {
		return nil, nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", k.Name, err)
	}
	request.Header.Set("User-Agent", "muster-agent")
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true, Proxy: http.ProxyFromEnvironment},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", k.Name, err)
	}
	defer answer.Body.Close()
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s\r\n", answer.Proto, answer.Status)
	if err := answer.Header.Write(&b); err != nil {
		return nil, nil, err
	}
	if body, err = io.ReadAll(io.LimitReader(answer.Body, maxPage)); err != nil {
		return nil, nil, fmt.Errorf("%s: read the web page: %w", k.Name, err)
	}
	return append(b.Bytes(), "\r\n"...), body, nil
}

// webPage collects the item web.page.get[HOST,PATH,PORT], a web page with its HTTP header.
func webPage(ctx context.Context, _ *machine, k *Key) (item.Value, error) {
	head, body, err := readPage(ctx, k)
	if err != nil {
		return item.Value{}, err
	}
	return item.FromText(strings.ToValidUTF8(string(append(head, body...)), "\uFFFD")), nil
}

// webPageTime collects the item web.page.perf[HOST,PATH,PORT], the seconds until a web page has arrived.
func webPageTime(ctx context.Context, _ *machine, k *Key) (item.Value, error) {
	began := time.Now()
	if _, _, err := readPage(ctx, k); err != nil {
		return item.Value{}, err
	}
	return item.FromFloat(time.Since(began).Seconds()), nil
}

// webPageMatch collects the item web.page.regexp, the first match of a regular expression in a web page. The
// parameters are [HOST,PATH,PORT,REGEXP,LENGTH,OUTPUT]. The output can name the match as \0 and its groups as \1 to
// \9. Without a match the value is an empty text.
func webPageMatch(ctx context.Context, _ *machine, k *Key) (item.Value, error) {
	if k.Parameter(3, "") == "" {
		return item.Value{}, fmt.Errorf("%s: the regular expression is missing; write %s[HOST,PATH,PORT,REGEXP]", k.Name, k.Name)
	}
	expression, err := regexp.Compile("(?m)" + k.Parameter(3, ""))
	if err != nil {
		return item.Value{}, fmt.Errorf("%s: %w", k.Name, err)
	}
	length, err := strconv.ParseUint(k.Parameter(4, strconv.Itoa(maxText)), 10, 31)
	if err != nil {
		return item.Value{}, fmt.Errorf("%s: the length %q is not a number", k.Name, k.Parameter(4, ""))
	}
	head, body, err := readPage(ctx, k)
	if err != nil {
		return item.Value{}, err
	}
	text := strings.ToValidUTF8(string(append(head, body...)), "\uFFFD")
	at := expression.FindStringSubmatchIndex(text)
	if at == nil {
		return item.FromText(""), nil
	}
	found := expandMatch(k.Parameter(5, `\0`), text, at)
	runes := []rune(found)
	return item.FromText(string(runes[:min(len(runes), int(length))])), nil
}
