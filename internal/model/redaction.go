package model

import "strings"

// RedactedText replaces a secret for readers without access.
const RedactedText = "(hidden)"

// RedactURL keeps scheme and host of an address: the rest may be a secret. The address may hold variables, so it
// need not parse as a URL.
func RedactURL(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return RedactedText
	}
	host := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		host = rest[:end]
	}
	more := rest[len(host):]
	host = host[strings.LastIndexByte(host, '@')+1:]
	if more == "" || more == "/" {
		return scheme + "://" + host + more
	}
	return scheme + "://" + host + "/" + RedactedText
}

// RedactQuery keeps an address up to its query, which may hold tokens and signatures.
func RedactQuery(address string) string {
	if place, _, ok := strings.Cut(address, "?"); ok {
		return place + "?" + RedactedText
	}
	return address
}
