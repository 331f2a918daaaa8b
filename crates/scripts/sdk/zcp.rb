# frozen_string_literal: true

# zcp for Ruby: what a script tells the server, and what it asks.
#
#   require "zcp"
#
#   name = Zcp.args.fetch("name", "world")
#   Zcp.fail("nobody wants to greet #{name}") unless Zcp.confirm("sure", "Greet #{name}?")
#   Zcp.progress(1, 2, "Looking for the words")
#   puts "Hello #{name}"
#
# Ask first and act after: a script may be ended at a question and run again from the top
# with the answer in hand. Run by hand, without a server, what is told goes to stderr and
# every question raises `Unable`.

require "json"
require "monitor"

module Zcp
  # A question without an answer.
  class NoAnswer < StandardError; end

  # The user said no.
  class Declined < NoAnswer; end

  # The user went away without an answer.
  class Cancelled < NoAnswer; end

  # There is nobody to ask: the client has no way to, or there is no server.
  class Unable < NoAnswer; end

  # One thread at a time, so that lines do not mix and every question gets its own answer.
  LOCK = Monitor.new
  private_constant :LOCK

  class << self
    # The arguments, from stdin. Without them there, from ARG_NAME as `name`.
    def args
      @args ||= begin
        given = $stdin.tty? ? nil : parsed($stdin.read.force_encoding("UTF-8"))
        given.is_a?(Hash) ? given : named_args
      end
    end

    # Tells how far the call is: `progress(3, 10, "Reading")`.
    def progress(done, total = nil, message = "")
      line = "progress #{[done, total].compact.join("/")} #{message}".rstrip
      tell(line, line)
    end

    # Logs a text, or anything that JSON can hold, at `debug`, `info`, `warning`, …
    def log(level, data)
      text = JSON.generate(data)
      tell("log #{level} #{text}", "#{level}: #{data.is_a?(String) ? data : text}")
    end

    # Asks the user for a form and returns its content. Without a schema the form has one
    # text, `answer`. Raises `Declined`, `Cancelled` or `Unable`.
    def ask(key, message, schema = nil)
      schema ||= {
        type: "object", properties: { answer: { type: "string" } }, required: ["answer"]
      }
      agree("ask", key, { message: message, schema: schema })
    end

    # Whether the user says yes. Raises `Unable`.
    def confirm(key, message)
      ask(key, message, { type: "object", properties: {} })
      true
    rescue Declined, Cancelled
      false
    end

    # Asks the user to open a page. Raises `Declined`, `Cancelled` or `Unable`.
    def visit(key, message, url)
      agree("visit", key, { message: message, url: url.to_s })
      nil
    end

    # Asks the client's model and returns its text. Raises `Unable`. For more than a prompt,
    # give the parameters: `{ prompt: …, system: … }` or those of `sampling/createMessage`.
    def sample(key, prompt, max_tokens: 1000)
      blocks = [sample_raw(key, prompt, max_tokens: max_tokens)["content"]].flatten.compact
      blocks.map { |block| block["text"] }.compact.join("\n")
    end

    # As `sample`, but returns the whole result: role, content, model and the rest.
    def sample_raw(key, prompt, max_tokens: 1000)
      params = prompt.is_a?(Hash) ? prompt.transform_keys(&:to_s) : { "prompt" => prompt }
      question("sample", key, { "maxTokens" => max_tokens }.merge(params))
    end

    # The client's folders, each with its "uri" and perhaps a "name". Raises `Unable`.
    def roots(key = "roots")
      question("roots", key).fetch("roots", [])
    end

    # Runs a block once, however often the script runs for this call. The value must be one
    # JSON can hold, and comes back as JSON gives it back, in the first run too.
    def once(key)
      kept = server? ? question("once", key) : {}
      return kept["value"] if kept.key?("value")

      value = JSON.generate(yield)
      tell("keep #{word(key)} #{value}")
      JSON.parse(value)
    end

    # Says that nobody needs to wait: the call goes on as a task.
    def detach
      tell("detach")
    end

    # Tells whoever subscribed that a resource changed.
    def updated(uri)
      tell("updated #{uri}", "updated #{uri}")
    end

    # Adds a text to the answer.
    def text(words)
      tell("text #{JSON.generate(words.to_s)}", words.to_s)
    end

    # Adds a file to the answer.
    def file(path, mime = "")
      # The server does not follow the script's `chdir`.
      line = "file #{File.absolute_path(path)} #{mime}".rstrip
      tell(line, line)
    end

    # Adds a link to the answer.
    def link(uri, name = "")
      line = "link #{uri.to_s.gsub(" ", "%20")} #{name}".rstrip
      tell(line, line)
    end

    # Ends the script: the call failed, and this is why.
    def fail(message)
      tell("error #{message}", "error: #{message}")
      exit(1)
    end

    private

    # Sends one line, or shows it when there is no server.
    def tell(line, shown = "")
      if server?
        # Ruby takes names from the system for ASCII where the locale says nothing.
        line = line.dup.force_encoding("UTF-8").scrub.gsub(/[\r\n]+/, " ")
        LOCK.synchronize { out.write("#{line}\n") }
      elsif !shown.empty?
        $stderr.puts(shown)
      end
      nil
    end

    def question(verb, key, body = nil)
      raise Unable, "no server to answer `#{verb} #{key}`" unless server? && ENV["ZCP_IN"]

      line = LOCK.synchronize do
        tell([verb, word(key), body && JSON.generate(body)].compact.join(" "))
        input.gets
      end
      answer = line ? JSON.parse(line) : { "error" => "the server went away" }
      raise Unable, answer["error"].to_s if answer.key?("error")

      answer
    end

    def agree(verb, key, body)
      answer = question(verb, key, body)
      case answer["action"]
      when "accept" then answer["content"] || {}
      when "decline" then raise Declined, "the user declined `#{key}`"
      else raise Cancelled, "the user cancelled `#{key}`"
      end
    end

    def server?
      !ENV.fetch("ZCP_OUT", "").empty?
    end

    def out
      @out ||= File.open(ENV["ZCP_OUT"], File::WRONLY | File::BINARY).tap do |opened|
        opened.sync = true
      end
    end

    def input
      @input ||= File.open(ENV["ZCP_IN"], "rb:UTF-8")
    end

    # A key as one word, and never two keys as the same word.
    def word(key)
      key.to_s.gsub(/[%\s]/) { |found| format("%%%02X", found.ord) }
    end

    def named_args
      ENV.select { |name, _| name.start_with?("ARG_") }
         .to_h { |name, text| [name[4..].downcase, parsed(text)] }
    end

    def parsed(text)
      JSON.parse(text)
    rescue JSON::ParserError
      text
    end
  end
end
