// For each line {"text", "event"} of a file: whether CESQL of CloudEvents' SDK says true and has no error, or refuses the text.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"github.com/cloudevents/sdk-go/sql/v2/parser"
	cloudevents "github.com/cloudevents/sdk-go/v2"
)

type asked struct {
	Text  string                 `json:"text"`
	Event map[string]interface{} `json:"event"`
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
		fmt.Println(answer(given))
	}
}

func answer(given asked) (said string) {
	defer func() {
		if failure := recover(); failure != nil {
			said = "\"refused\""
		}
	}()
	expression, err := parser.Parse(given.Text)
	if err != nil {
		return "\"refused\""
	}
	value, err := expression.Evaluate(event(given.Event))
	if isTrue, isBoolean := value.(bool); err == nil && isBoolean && isTrue {
		return "true"
	}
	return "false"
}

func event(given map[string]interface{}) cloudevents.Event {
	made := cloudevents.NewEvent("1.0")
	for name, value := range given {
		switch held := value.(type) {
		case float64:
			made.SetExtension(name, int32(held))
		case string:
			switch name {
			case "id":
				made.SetID(held)
			case "source":
				made.SetSource(held)
			case "type":
				made.SetType(held)
			case "subject":
				made.SetSubject(held)
			default:
				made.SetExtension(name, held)
			}
		default:
			made.SetExtension(name, held)
		}
	}
	return made
}
