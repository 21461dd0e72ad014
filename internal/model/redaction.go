package model

import "strings"

// RedactedText stands where a secret is that the reader may not see.
const RedactedText = "(hidden)"

// RedactURL leaves scheme and host: what follows may be a secret. The address may hold variables, so it is no URL yet.
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

// RedactQuery leaves an address up to its query, where tokens and signatures are.
func RedactQuery(address string) string {
	if place, _, ok := strings.Cut(address, "?"); ok {
		return place + "?" + RedactedText
	}
	return address
}
