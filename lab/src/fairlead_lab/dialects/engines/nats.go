// For each line {"text", "event"} of a file: whether a server of NATS has a subject's messages under a subscription's, or refuses that.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"github.com/nats-io/nats-server/v2/server"
)

type asked struct {
	Text  string            `json:"text"`
	Event map[string]string `json:"event"`
}

func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var given asked
		if err := json.Unmarshal(lines.Bytes(), &given); err != nil {
			panic(err)
		}
		subject := given.Event["subject"]
		switch {
		case !server.IsValidSubject(given.Text):
			fmt.Println("\"refused\"")
		default:
			fmt.Println(server.IsValidPublishSubject(subject) && server.SubjectMatchesFilter(subject, given.Text))
		}
	}
}
