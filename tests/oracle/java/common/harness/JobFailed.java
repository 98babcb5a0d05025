package harness;

/** A job failed; the message is the chain of Flink's own messages. */
public final class JobFailed extends Exception {
    private static final long serialVersionUID = 1L;

    public JobFailed(Throwable cause) {
        super(chain(cause), cause);
    }

    /** Returns all different messages, from the outermost to the root cause. */
    public static String chain(Throwable error) {
        StringBuilder text = new StringBuilder();
        for (Throwable at = error; at != null; at = at.getCause()) {
            String message = at.getMessage() == null ? at.getClass().getName() : at.getMessage();
            if (text.indexOf(message) < 0) {
                text.append(text.length() == 0 ? "" : " <- ").append(message);
            }
        }
        return text.toString();
    }
}
